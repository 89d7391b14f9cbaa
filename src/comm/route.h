// Who sends to whom, for sums that end at one rank and copies that begin at one.
#pragma once

#include <vector>

namespace athanor::comm {

/// One rank's part in a sum over all that ends at an owner, or in a copy from it to all. Ranks are cut into nodes of equal
/// size; in every node one rank, the owner's counterpart, speaks with the other nodes.
struct Route {
  std::vector<int>
      within;  ///< ranks of this node, in order: a sum comes from them first, a copy goes to them
  std::vector<int> across;  ///< counterparts in the other nodes, in order: the same, on the owner
  int other = -1;           ///< where this rank's sum goes and its copy comes from; −1 on the owner
};

/// `node_ranks` must divide `size`.
Route route(int rank, int size, int node_ranks, int owner);

/// The most ranks that send to one in a sum.
int most_sources(int size, int node_ranks);

}  // namespace athanor::comm
