#include "advisor/decode_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "checkpoint/open_model.h"
#include "infer/generate.h"
#include "infer/sampler.h"
#include "model/model.h"
#include "train/prepare.h"
#include "train/startup.h"

namespace athanor::advisor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPrompts[] = {512, 2048};
constexpr int64_t kBatch = 8;
constexpr int64_t kBatchContext = 64;
constexpr uint64_t kSeed = 1;

/// What to run: a model on disk, or a config's geometry.
struct Subject {
  std::optional<checkpoint::OpenedModel> opened;
  model::ModelConfig geometry;
};

Subject subject_of(const DecodeBenchOptions& options) {
  if (options.model.extension() == ".toml") {
    train::Config config = train::read_config(options.model, options.overrides);
    train::resolve_vocab(config, train::expected_vocab(config));
    return {std::nullopt, train::model_config(config)};
  }
  if (!options.overrides.empty()) {
    throw usage_error("--set changes a config; " + options.model.string() + " is a model");
  }
  checkpoint::OpenedModel opened = checkpoint::open_model(options.model);
  for (const std::string& warning : opened.warnings) log::warning(warning);
  const model::ModelConfig geometry = opened.config;
  return {std::move(opened), geometry};
}

/// A sequence being measured, or several that advance together; their memory is the arena's.
class Sequences {
 public:
  Sequences(ops::Context& ctx, model::Model& model, Arena& arena, int64_t count, int64_t capacity,
            int64_t chunk)
      : ctx_(ctx), model_(model), arena_(arena) {
    const ops::Precision precision = model.parameters().precision();
    states_.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      states_.push_back(model::allocate_state(arena, model.config(), precision, capacity, chunk));
      pointers_.push_back(&states_.back());
    }
    ids_ = arena.tensor(DType::kI32, {count * chunk});
    logits_ = arena.tensor(ops::real_dtype(precision), {count, model.config().vocab});
  }

  void clear() {
    for (model::SequenceState& state : states_) model::reset(state);
  }

  /// `tokens` random tokens more for each sequence.
  void extend(RandomStream& random, int64_t tokens) {
    const auto count = static_cast<int64_t>(states_.size());
    const Tensor ids(ids_.data(), DType::kI32, {count * tokens});
    begins_.clear();
    for (int64_t i = 0; i <= count; ++i) begins_.push_back(i * tokens);
    if (!ctx_.planning()) {
      for (int64_t i = 0; i < ids.numel(); ++i) {
        ids.as<int32_t>()[i] =
            static_cast<int32_t>(random.uniform() * static_cast<double>(model_.config().vocab));
      }
    }
    model_.extend(ctx_, arena_, ids, begins_, pointers_, logits_);
  }

  std::span<const float> logits(int64_t sequence) const {
    return {logits_.row<float>(sequence), static_cast<size_t>(logits_.cols())};
  }
  int64_t count() const { return static_cast<int64_t>(states_.size()); }

  /// In a planning arena: as if the sequences held `tokens` already.
  void pretend(int64_t tokens) {
    for (model::SequenceState& state : states_) {
      state.position = tokens;
      for (model::LayerState& layer : state.layers) {
        layer.count = std::min(tokens, layer.keys.rows() - 1);
      }
    }
  }

 private:
  ops::Context& ctx_;
  model::Model& model_;
  Arena& arena_;
  std::vector<model::SequenceState> states_;
  std::vector<model::SequenceState*> pointers_;
  std::vector<int64_t> begins_;
  Tensor ids_, logits_;
};

/// The sequences of all figures, in one arena.
struct Lanes {
  Sequences one, batch;

  Lanes(ops::Context& ctx, model::Model& model, Arena& arena, int64_t decoded)
      : one(ctx, model, arena, 1, std::max(kPrompts[1], kPrompts[0] + decoded),
            infer::kPrefillChunk),
        batch(ctx, model, arena, kBatch, kBatchContext + decoded, kBatchContext) {}

  /// Takes what the largest calls take.
  void plan(int64_t decoded) {
    RandomStream random(kSeed, 0);
    for (const int64_t before : {int64_t{0}, kPrompts[1] - infer::kPrefillChunk}) {
      one.pretend(before);
      one.extend(random, infer::kPrefillChunk);
    }
    one.pretend(kPrompts[0] + decoded - 1);
    one.extend(random, 1);
    batch.extend(random, kBatchContext);
    batch.pretend(kBatchContext + decoded - 1);
    batch.extend(random, 1);
  }
};

class Bench {
 public:
  Bench(const Subject& subject, const DecodeBenchOptions& options) : decoded_(options.tokens) {
    const model::ModelOptions setup{.rope_positions =
                                        std::max(kPrompts[1], kPrompts[0] + options.tokens)};
    const Threads threads;
    {
      Arena values("parameters"), weights("packed weights"), activations("activations");
      Arena scratch("scratch");
      model::Parameters parameters(subject.geometry, options.precision, values);
      model::Model model(parameters, weights, setup);
      ops::Context ctx(threads, scratch);
      parameters.initialise(ctx, kSeed);
      model.refresh(ctx);
      Lanes(ctx, model, activations, decoded_).plan(decoded_);
      require_memory("this model",
                     values.peak() + weights.peak() + activations.peak() + scratch.peak());
      values_.reserve(values.peak());
      weights_.reserve(weights.peak());
      activations_.reserve(activations.peak());
      scratch_.reserve(scratch.peak());
    }
    parameters_.emplace(subject.geometry, options.precision, values_);
    ctx_.emplace(threads, scratch_);
    if (subject.opened) {
      subject.opened->load(*parameters_);
    } else {
      parameters_->initialise(*ctx_, kSeed);
    }
    model_.emplace(*parameters_, weights_, setup);
    model_->refresh(*ctx_);
    ctx_->set_trace(&trace_);
    lanes_.emplace(*ctx_, *model_, activations_, decoded_);
  }

  ops::Context& context() { return *ctx_; }

  TracedRun prefill(int64_t tokens) {
    lanes_->one.clear();
    return traced([&] {
      for (int64_t done = 0; done < tokens; done += infer::kPrefillChunk) {
        lanes_->one.extend(random_, std::min(infer::kPrefillChunk, tokens - done));
      }
    });
  }

  /// One token after another; greedy sampling takes its time, but what it draws is not fed back.
  void decode(int64_t batch, std::vector<TracedRun>& runs) {
    Sequences& sequences = batch == 1 ? lanes_->one : lanes_->batch;
    sequences.clear();
    sequences.extend(random_, batch == 1 ? kPrompts[0] : kBatchContext);
    infer::Sampler sampler({.temperature = 0});
    for (int64_t i = 0; i < decoded_; ++i) {
      runs.push_back(traced([&] {
        sequences.extend(random_, 1);
        const ops::PartScope part(*ctx_, "sampling");
        const ops::TraceSpan span(*ctx_, "sample", [&] {
          const auto vocab = static_cast<int64_t>(sequences.logits(0).size());
          return ops::OpWork{.shape = {batch, vocab},
                             .bytes = 4.0 * static_cast<double>(batch * vocab)};
        });
        for (int64_t s = 0; s < batch; ++s) sampler.sample(sequences.logits(s));
      }));
    }
  }

 private:
  template <class Action>
  TracedRun traced(const Action& action) {
    trace_.clear();
    const Clock::time_point start = Clock::now();
    action();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return {seconds, trace_.entries(), {}};
  }

  int64_t decoded_;
  Arena values_{"parameters"}, weights_{"packed weights"};
  Arena activations_{"activations"}, scratch_{"scratch"};
  std::optional<model::Parameters> parameters_;
  std::optional<model::Model> model_;
  std::optional<ops::Context> ctx_;
  ops::Trace trace_;
  std::optional<Lanes> lanes_;
  RandomStream random_{kSeed, stream_of("bench decode")};
};

void check(const DecodeBenchOptions& options) {
  for (const auto& [name, value] :
       {std::pair{"--rounds", options.rounds}, {"--tokens", options.tokens}}) {
    if (value < 1) throw usage_error(fmt::format("{} {} must be at least 1", name, value));
  }
  if (options.tokens > 4096) {
    throw usage_error(fmt::format("--tokens {} must be at most 4096", options.tokens));
  }
}

/// Adds `fresh` to `runs`, under the ceilings of their round.
void keep(std::vector<TracedRun> fresh, const Ceilings& ceilings, std::vector<TracedRun>& runs) {
  for (TracedRun& run : fresh) {
    run.ceilings = ceilings;
    runs.push_back(std::move(run));
  }
}

}  // namespace

DecodeReport measure_decode(const DecodeBenchOptions& options) {
  check(options);
  const Subject subject = subject_of(options);
  Bench bench(subject, options);
  CeilingMeter meter(bench.context().threads());

  std::array<std::vector<TracedRun>, 4> runs;
  std::vector<Ceilings> measured;
  log::Progress progress("bench decode", "rounds", options.rounds + 1);
  for (int64_t round = 0; round <= options.rounds; ++round) {  // the first warms up
    std::array<std::vector<TracedRun>, 4> fresh;
    fresh[0].push_back(bench.prefill(kPrompts[0]));
    fresh[1].push_back(bench.prefill(kPrompts[1]));
    bench.decode(1, fresh[2]);
    bench.decode(kBatch, fresh[3]);
    measured.push_back(meter.measure());
    progress.update(round + 1);
    if (round == 0) continue;
    const Ceilings ceilings = between(measured[measured.size() - 2], measured.back());
    for (size_t i = 0; i < runs.size(); ++i) keep(std::move(fresh[i]), ceilings, runs[i]);
  }
  progress.finish();

  DecodeReport report;
  report.precision = ops::name_of(options.precision);
  report.threads = bench.context().threads().count();
  report.isa = bench.context().isa();
  report.parameters = model::count_parameters(subject.geometry);
  report.random_weights = !subject.opened;
  report.rounds = options.rounds;
  report.ceilings = median(measured);
  const auto figures = [&](std::vector<TracedRun>& of, int64_t tokens, int64_t sequences,
                           int64_t context) {
    DecodeFigures result{tokens, sequences, context, 0, {}};
    of = middle_runs(std::move(of));
    result.table = tabulate(of);
    result.tokens_per_second = static_cast<double>(tokens * sequences) / result.table.seconds;
    return result;
  };
  report.prefill.push_back(figures(runs[0], kPrompts[0], 1, 0));
  report.prefill.push_back(figures(runs[1], kPrompts[1], 1, 0));
  report.decode.push_back(figures(runs[2], 1, 1, kPrompts[0]));
  report.decode.push_back(figures(runs[3], 1, kBatch, kBatchContext));

  report.active_weight_bytes = static_cast<double>(report.parameters.active_with_head) *
                               static_cast<double>(size_of(ops::act_dtype(options.precision)));
  double could = 0, took = 0;
  for (const TracedRun& run : runs[2]) {
    could += report.active_weight_bytes / run.ceilings.read_bytes;
    took += run.seconds;
  }
  report.bound_share = could / took;
  report.bound_tokens_per_second = static_cast<double>(runs[2].size()) / could;
  return report;
}

std::string to_text(const DecodeReport& report) {
  std::string text = fmt::format(
      "{} parameters, {} active, {}{}; kernels {}, {} threads; the middle half of {} rounds\n"
      "ceilings: bf16 {:.0f} GFLOP/s, fp32 {:.0f} GFLOP/s, memory {:.1f} GB/s read\n\n",
      report.parameters.total, report.parameters.active_with_head, report.precision,
      report.random_weights ? ", random weights" : "", ops::name_of(report.isa), report.threads,
      report.rounds, report.ceilings.bf16_flops / 1e9, report.ceilings.f32_flops / 1e9,
      report.ceilings.read_bytes / 1e9);
  for (const DecodeFigures& figures : report.prefill) {
    text += fmt::format("{:<28}{:>10.1f} tokens/s\n", fmt::format("prompt of {}", figures.tokens),
                        figures.tokens_per_second);
  }
  for (const DecodeFigures& figures : report.decode) {
    text +=
        fmt::format("{:<28}{:>10.1f} tokens/s\n",
                    fmt::format("batch {}, after {} tokens", figures.sequences, figures.context),
                    figures.tokens_per_second);
  }
  text += fmt::format(
      "batch 1 reads {} of weights a token: at the bandwidth measured {:.1f} tokens/s, of which "
      "{:.0f} "
      "% are reached\n",
      size_text(static_cast<uint64_t>(report.active_weight_bytes)), report.bound_tokens_per_second,
      report.bound_share * 100);
  text += "\nprompt of 2048\n" + to_text(report.prefill.back().table, "prompt");
  for (const DecodeFigures& figures : report.decode) {
    text += fmt::format("\nbatch {}\n", figures.sequences);
    text += to_text(figures.table, "a token each");
  }
  return text;
}

}  // namespace athanor::advisor
