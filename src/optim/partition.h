// Who moves what when ranks share the optimizer (ZeRO-1).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/parameters.h"
#include "optim/groups.h"

namespace athanor::optim {

/// A stretch of the flat parameter space and the rank that moves it.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  int owner = 0;
};

/// The flat space in equal contiguous parts, cut at the edges of norm blocks, for what lies before the matrices and for the
/// matrices apart: so every rank has its part of the memory and its part of Muon's work, which the embedding has none of.
/// A tensor is cut so that no rank has two parts of it.
class Partition {
 public:
  Partition(const model::Parameters& parameters, int ranks);
  int ranks() const { return ranks_; }
  /// In the order of the flat space; together they are all of it.
  std::span<const Piece> pieces() const { return pieces_; }

 private:
  int ranks_;
  std::vector<Piece> pieces_;
};

/// One matrix that Muon moves.
struct MuonMatrix {
  int64_t offset = 0;  ///< in the flat space
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<Piece>
      parts;       ///< its own elements, from 0, by their owners: one part where no edge cuts it
  int worker = 0;  ///< the rank that orthogonalises it
  int64_t count() const { return rows * cols; }
};

/// All matrices under Muon in the order of the flat space. A matrix in one part is worked on where it lies; one that an edge
/// cuts, by that of its owners which has least to do (zaya1.md §7.4).
std::vector<MuonMatrix> plan_muon(const model::Parameters& parameters, OptimizerKind kind,
                                  const Partition& partition, int newton_schulz_steps);

/// FLOPs of each rank in that plan.
std::vector<double> muon_loads(std::span<const MuonMatrix> matrices, int ranks,
                               int newton_schulz_steps);

}  // namespace athanor::optim
