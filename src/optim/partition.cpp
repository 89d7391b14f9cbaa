#include "optim/partition.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/matrix.h"

namespace athanor::optim {

Partition::Partition(const model::Parameters& parameters, int ranks) : ranks_(ranks) {
  const int64_t numel = parameters.numel();
  if (ranks == 1) {
    pieces_.push_back({0, numel, 0});
    return;
  }
  constexpr int64_t kBlock = ops::kNormBlock;
  const int64_t middle = parameters.matrices_begin() / kBlock * kBlock;
  for (const auto& [begin, end] : {std::pair{int64_t{0}, middle}, std::pair{middle, numel}}) {
    const int64_t blocks = (end - begin + kBlock - 1) / kBlock;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto edge = [&](int64_t r) {
        return std::min(end, begin + r * blocks / ranks * kBlock);
      };
      const Piece piece{edge(rank), edge(rank + 1), rank};
      if (piece.begin == piece.end) continue;
      if (!pieces_.empty() && pieces_.back().owner == rank) {
        pieces_.back().end = piece.end;
      } else {
        pieces_.push_back(piece);
      }
    }
  }
}

std::vector<MuonMatrix> plan_muon(const model::Parameters& parameters, OptimizerKind kind,
                                  const Partition& partition, int newton_schulz_steps) {
  std::vector<MuonMatrix> matrices;
  const std::span<const Piece> pieces = partition.pieces();
  size_t at = 0;
  for (const model::Parameter& parameter : parameters.all()) {
    if (rule_of(kind, parameter.spec.kind) != Rule::kMuon) continue;
    const std::vector<int64_t>& shape = parameter.spec.shape;
    MuonMatrix matrix{.offset = parameter.offset,
                      .rows = shape[shape.size() - 2],
                      .cols = shape.back(),
                      .parts = {},
                      .worker = 0};
    for (int64_t i = 0; i < parameter.spec.numel() / matrix.count(); ++i) {
      const int64_t end = matrix.offset + matrix.count();
      while (pieces[at].end <= matrix.offset) ++at;
      matrix.parts.clear();
      for (size_t p = at; p < pieces.size() && pieces[p].begin < end; ++p) {
        matrix.parts.push_back({std::max(pieces[p].begin, matrix.offset) - matrix.offset,
                                std::min(pieces[p].end, end) - matrix.offset, pieces[p].owner});
      }
      matrix.worker = matrix.parts.front().owner;
      matrices.push_back(matrix);
      matrix.offset = end;
    }
  }
  std::vector<MuonMatrix> whole;
  std::ranges::copy_if(matrices, std::back_inserter(whole),
                       [](const MuonMatrix& m) { return m.parts.size() == 1; });
  std::vector<double> loads = muon_loads(whole, partition.ranks(), newton_schulz_steps);
  for (MuonMatrix& matrix : matrices) {
    if (matrix.parts.size() == 1) continue;
    const auto load = [&](const Piece& part) { return loads[static_cast<size_t>(part.owner)]; };
    matrix.worker = std::ranges::min_element(matrix.parts, {}, load)->owner;
    loads[static_cast<size_t>(matrix.worker)] +=
        ops::newton_schulz_flops(matrix.rows, matrix.cols, newton_schulz_steps);
  }
  return matrices;
}

std::vector<double> muon_loads(std::span<const MuonMatrix> matrices, int ranks,
                               int newton_schulz_steps) {
  std::vector<double> loads(static_cast<size_t>(ranks));
  for (const MuonMatrix& matrix : matrices) {
    loads[static_cast<size_t>(matrix.worker)] +=
        ops::newton_schulz_flops(matrix.rows, matrix.cols, newton_schulz_steps);
  }
  return loads;
}

}  // namespace athanor::optim
