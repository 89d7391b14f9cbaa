#include "infer/generate.h"

#include <algorithm>
#include <array>

#include "model/state.h"

namespace athanor::infer {
namespace {

/// A sequence being decoded and the logits after its last token. Everything lies in the
/// activations' arena.
class Decoder {
 public:
  /// Room for `capacity` tokens, of which at most `chunk` are added at once.
  Decoder(ops::Context& ctx, model::Model& model, Arena& activations, int64_t capacity,
          int64_t chunk)
      : ctx_(ctx), model_(model), activations_(activations), scope_(activations) {
    const ops::Precision precision = model.parameters().precision();
    state_ = model::allocate_state(activations, model.config(), precision, capacity, chunk);
    ids_ = activations.tensor(DType::kI32, {chunk});
    logits_ = activations.tensor(ops::real_dtype(precision), {1, model.config().vocab});
  }

  void extend(std::span<const int32_t> tokens) {
    std::copy(tokens.begin(), tokens.end(), ids_.as<int32_t>());
    run(static_cast<int64_t>(tokens.size()));
  }

  /// Takes, in a planning arena, what adding `count` tokens at the end of the capacity takes.
  void plan(int64_t count, int64_t capacity) {
    state_.position = capacity - count;
    for (model::LayerState& layer : state_.layers) {
      layer.count = std::min(state_.position, layer.keys.rows() - count);
    }
    run(count);
  }

  std::span<const float> logits() const {
    return {logits_.as<float>(), static_cast<size_t>(logits_.cols())};
  }

 private:
  void run(int64_t count) {
    const std::array<int64_t, 2> begins = {0, count};
    const std::array<model::SequenceState*, 1> states = {&state_};
    const Tensor ids(ids_.data(), DType::kI32, {count});
    model_.extend(ctx_, activations_, ids, begins, states, logits_);
  }

  ops::Context& ctx_;
  model::Model& model_;
  Arena& activations_;
  ArenaScope scope_;
  model::SequenceState state_;
  Tensor ids_;
  Tensor logits_;
};

/// The last token drawn is never read by the model.
int64_t capacity_for(int64_t prompt_tokens, const GenerationOptions& options) {
  return prompt_tokens + options.max_tokens - 1;
}

}  // namespace

Work generation_work(int64_t prompt_tokens, const GenerationOptions& options) {
  return [=](ops::Context& ctx, model::Model& model, Arena& activations) {
    const int64_t capacity = capacity_for(prompt_tokens, options);
    const int64_t chunk = std::min(options.chunk, prompt_tokens);
    Decoder decoder(ctx, model, activations, capacity, chunk);
    decoder.plan(chunk, capacity);
    decoder.plan(1, capacity);
  };
}

std::vector<int32_t> generate(Session& session, std::span<const int32_t> prompt,
                              const GenerationOptions& options,
                              const std::function<void(int32_t)>& sink) {
  require(!prompt.empty() && options.max_tokens >= 1, "generation without a prompt or a token");
  Sampler sampler(options.sampling);
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  const auto chunk = static_cast<size_t>(std::min(options.chunk, prompt_tokens));
  Decoder decoder(session.context(), session.model(), session.activations(),
                  capacity_for(prompt_tokens, options), static_cast<int64_t>(chunk));
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    decoder.extend(prompt.subspan(begin, std::min(chunk, prompt.size() - begin)));
  }
  std::vector<int32_t> drawn;
  drawn.reserve(static_cast<size_t>(options.max_tokens));  // the context's length at most
  while (true) {
    const int32_t token = sampler.sample(decoder.logits());
    drawn.push_back(token);
    if (sink) sink(token);
    const bool full = static_cast<int64_t>(drawn.size()) == options.max_tokens;
    if (full || token == options.stop_token) return drawn;
    decoder.extend({&token, 1});
  }
}

}  // namespace athanor::infer
