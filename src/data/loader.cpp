#include "data/loader.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace athanor::data {

struct Loader::Phase {
  PhaseData data;
  Mix mix;
  std::vector<uint64_t> samples;  // in each source
  std::vector<uint64_t> streams;  // of random numbers, one a source
};

uint64_t samples_in(const TokenSource& source, int64_t sequence_length) {
  require(sequence_length > 0, "a sequence length that is not positive");
  const uint64_t tokens = source.tokens();
  return tokens == 0 ? 0 : (tokens - 1) / static_cast<uint64_t>(sequence_length);
}

void read_sample(const TokenSource& source, uint64_t sample, std::span<int32_t> ids,
                 std::span<int32_t> targets, std::vector<int32_t>& segment_begins) {
  const uint64_t length = ids.size();
  require(length > 0 && targets.size() == length, "a sample's buffers");
  const uint64_t begin = sample * length;
  source.read(begin, ids);
  std::copy(ids.begin() + 1, ids.end(), targets.begin());
  source.read(begin + length, targets.last(1));
  segment_begins.assign(1, 0);
  uint64_t document = source.document_at(begin);
  while (true) {
    const uint64_t end =
        source.document_begin(++document) - begin;  // of the one before, in the sample
    if (end > length) break;
    targets[end - 1] = -1;
    if (end == length) break;
    segment_begins.push_back(static_cast<int32_t>(end));
  }
}

Loader::Loader(std::vector<PhaseData> phases, uint64_t seed) : seed_(seed) {
  for (size_t p = 0; p < phases.size(); ++p) {
    PhaseData& data = phases[p];
    if (data.sequence_length <= 0) throw usage_error("a sequence length must be positive");
    std::vector<double> weights;
    for (const WeightedSource& source : data.sources) weights.push_back(source.weight);
    auto phase = std::make_shared<Phase>(Phase{std::move(data), Mix(weights), {}, {}});
    for (size_t s = 0; s < phase->data.sources.size(); ++s) {
      const TokenSource& source = *phase->data.sources[s].tokens;
      phase->samples.push_back(samples_in(source, phase->data.sequence_length));
      if (phase->samples.back() == 0) {
        throw usage_error(
            fmt::format("{}: more sequence than data: {} tokens, but sequences of {} need at least "
                        "{}; lower the "
                        "sequence length or add text",
                        source.name(), source.tokens(), phase->data.sequence_length,
                        phase->data.sequence_length + 1));
      }
      phase->streams.push_back(stream_of("data.order", p << 32 | s));
    }
    phases_.push_back(std::move(phase));
  }
}

const Loader::Phase& Loader::phase_at(int phase) const {
  require(phase >= 0 && static_cast<size_t>(phase) < phases_.size(), "a phase that is not there");
  return *phases_[static_cast<size_t>(phase)];
}

SamplePlace Loader::place(int phase, uint64_t index) const {
  const Phase& p = phase_at(phase);
  const int source = p.mix.source(index);
  const auto s = static_cast<size_t>(source);
  const uint64_t ordinal = p.mix.ordinal(index);
  const uint64_t epoch = ordinal / p.samples[s];
  const auto block = philox(seed_, p.streams[s], epoch);
  const uint64_t stream = uint64_t{block[1]} << 32 | block[0];
  return {source, epoch, permuted(ordinal % p.samples[s], p.samples[s], seed_, stream)};
}

void Loader::fetch(int phase, uint64_t index, std::span<int32_t> ids, std::span<int32_t> targets,
                   std::vector<int32_t>& segment_begins) const {
  const Phase& p = phase_at(phase);
  require(ids.size() == static_cast<size_t>(p.data.sequence_length), "a sample's length");
  const SamplePlace where = place(phase, index);
  read_sample(*p.data.sources[static_cast<size_t>(where.source)].tokens, where.sample, ids, targets,
              segment_begins);
}

int64_t Loader::sequence_length(int phase) const { return phase_at(phase).data.sequence_length; }

double Loader::epochs(int phase, int source, uint64_t samples) const {
  const Phase& p = phase_at(phase);
  return static_cast<double>(p.mix.count(source, samples)) /
         static_cast<double>(p.samples.at(static_cast<size_t>(source)));
}

}  // namespace athanor::data
