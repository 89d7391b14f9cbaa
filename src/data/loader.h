// The order of samples: a pure function of (seed, phase, global sample index), never of ranks,
// workers or time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/mix.h"
#include "data/shards.h"

namespace athanor::data {

/// A source and its share of a phase's samples; weights need not sum to one.
struct WeightedSource {
  std::shared_ptr<const TokenSource> tokens;
  double weight = 1.0;
};

/// What one phase of training reads.
struct PhaseData {
  std::vector<WeightedSource> sources;
  int64_t sequence_length = 0;
};

/// Samples in a source: sample k has inputs [k·n, k·n + n) and their next tokens, n =
/// sequence_length, so that each token but the stream's first and the last (tokens − 1) mod n is a
/// target once an epoch.
uint64_t samples_in(const TokenSource& source, int64_t sequence_length);

/// Fills sample k of a source.
///   ids             [sequence_length]
///   targets         [sequence_length]: the next token of the same document, −1 at a document's last token
///   segment_begins  where documents begin in `ids`: 0 first, ascending. Its capacity is kept: reserve
///                   sequence_length once and no call allocates.
void read_sample(const TokenSource& source, uint64_t sample, std::span<int32_t> ids,
                 std::span<int32_t> targets, std::vector<int32_t>& segment_begins);

/// Where a sample comes from.
struct SamplePlace {
  int source = 0;       ///< in PhaseData::sources
  uint64_t epoch = 0;   ///< how often that source has been read before
  uint64_t sample = 0;  ///< in the source, as in read_sample
};

/// The samples of all phases. Immutable: all functions may be called from many threads. Within a
/// phase the sources' shares hold to within one sample in every prefix; each source is read in
/// epochs, every sample once an epoch, in an order drawn anew for each (seed, phase, source,
/// epoch).
class Loader {
 public:
  /// usage_error, with the figures, when a source has fewer tokens than one sample needs
  /// (sequence_length + 1), when a weight is not positive, or a phase has no source.
  Loader(std::vector<PhaseData> phases, uint64_t seed);

  SamplePlace place(int phase, uint64_t index) const;
  /// Fills global sample `index` of `phase` (index counts from 0 in each phase); buffers as in
  /// read_sample.
  void fetch(int phase, uint64_t index, std::span<int32_t> ids, std::span<int32_t> targets,
             std::vector<int32_t>& segment_begins) const;
  int64_t sequence_length(int phase) const;
  /// Epochs of a source that are begun after `samples` samples of the phase, as a fraction (1.5:
  /// half-way in the second).
  double epochs(int phase, int source, uint64_t samples) const;

 private:
  struct Phase;
  const Phase& phase_at(int phase) const;
  std::vector<std::shared_ptr<const Phase>> phases_;
  uint64_t seed_;
};

}  // namespace athanor::data
