#include "comm/route.h"

namespace athanor::comm {

Route route(int rank, int size, int node_ranks, int owner) {
  Route route;
  const int first = rank / node_ranks * node_ranks;
  const int speaker = first + owner % node_ranks;
  if (rank != speaker) {
    route.other = speaker;
    return route;
  }
  for (int r = first; r < first + node_ranks; ++r) {
    if (r != rank) route.within.push_back(r);
  }
  if (rank != owner) {
    route.other = owner;
    return route;
  }
  for (int r = owner % node_ranks; r < size; r += node_ranks) {
    if (r != rank) route.across.push_back(r);
  }
  return route;
}

int most_sources(int size, int node_ranks) { return node_ranks - 1 + size / node_ranks - 1; }

}  // namespace athanor::comm
