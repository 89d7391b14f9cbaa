#include "support/test_model.h"

#include <algorithm>

#include "checkpoint/model_directory.h"

namespace athanor::test {
namespace {

model::Batch view_of(const TokenBatch& batch) {
  const auto count = static_cast<int64_t>(batch.ids.size());
  return {Tensor::of(batch.ids.data(), {count}),
          batch.targets.empty() ? Tensor{} : Tensor::of(batch.targets.data(), {count}),
          batch.begins};
}

}  // namespace

TokenBatch batch_of(const Values& ids, const Values* targets, const Values* cu_seqlens) {
  TokenBatch batch;
  batch.ids.assign(ids.integers.begin(), ids.integers.end());
  if (targets != nullptr) {
    batch.targets.assign(targets->integers.begin(), targets->integers.end());
  }
  if (cu_seqlens != nullptr) {
    batch.begins = cu_seqlens->integers;
  } else {
    for (int64_t b = 0; b <= ids.shape.at(0); ++b) batch.begins.push_back(b * ids.shape.at(1));
  }
  return batch;
}

TestModel::TestModel(const fs::path& directory, ops::Precision precision, bool training,
                     int64_t rope_positions)
    : config_(checkpoint::read_model_config(directory)), precision_(precision), threads_(2) {
  const model::ModelOptions options{.training = training, .rope_positions = rope_positions};
  {
    Arena values("values"), weights("weights");
    model::Parameters parameters(config_, precision, values);
    model::Model model(parameters, weights, options);
    values_.reserve(values.peak());
    weights_.reserve(weights.peak());
  }
  parameters_ = std::make_unique<model::Parameters>(config_, precision, values_);
  checkpoint::load_weights(directory, *parameters_);
  model_ = std::make_unique<model::Model>(*parameters_, weights_, options);
}

void TestModel::run(FunctionRef<void(ops::Context& ctx, Arena& activations)> pass) {
  Arena activations("activations"), scratch("scratch");
  {
    Arena planned("activations"), planned_scratch("scratch");
    ops::Context ctx(threads_, planned_scratch);
    pass(ctx, planned);
    activations.reserve(planned.peak());
    scratch.reserve(planned_scratch.peak());
  }
  ops::Context ctx(threads_, scratch);
  pass(ctx, activations);
}

std::map<std::string, Values> TestModel::forward(const TokenBatch& batch) {
  std::map<std::string, Values> seen;
  const model::Observer observer = [&](std::string_view name, const Tensor& value) {
    seen[std::string(name)] = values_of(value);
  };
  run([&](ops::Context& ctx, Arena& activations) {
    model::Statistics statistics;
    const Tensor no_losses;
    model_->forward(ctx, activations, view_of(batch), no_losses, statistics, /*want_logits=*/true,
                    observer);
  });
  return seen;
}

Tensor TestModel::flat_gradients() {
  return Tensor::of(gradients_.data(), {static_cast<int64_t>(gradients_.size())});
}

std::map<std::string, Values> TestModel::gradients(const TokenBatch& batch, double& loss,
                                                   std::vector<int64_t>* expert_counts) {
  const auto targets = std::count_if(batch.targets.begin(), batch.targets.end(),
                                     [](int32_t target) { return target >= 0; });
  gradients_.assign(parameters_->numel(), 0.0f);
  parameters_->set_gradients(flat_gradients());
  model::Statistics statistics;
  run([&](ops::Context& ctx, Arena& activations) {
    model::GradientSink sink;
    statistics = {};
    model_->forward_backward(ctx, activations, view_of(batch), 1.0 / static_cast<double>(targets),
                             sink, statistics);
  });
  loss = statistics.loss_sum / static_cast<double>(statistics.targets);
  if (expert_counts != nullptr) *expert_counts = statistics.expert_counts;
  std::map<std::string, Values> gradients;
  for (const model::Parameter& parameter : parameters_->all()) {
    gradients[parameter.spec.name] = values_of(parameter.gradient);
  }
  return gradients;
}

model::SequenceState& TestModel::new_state(int64_t capacity, int64_t chunk) {
  auto arena = std::make_unique<Arena>("state");
  model::allocate_state(*arena, config_, precision_, capacity, chunk);
  arena->reserve(arena->peak());
  states_.push_back(std::make_unique<model::SequenceState>(
      model::allocate_state(*arena, config_, precision_, capacity, chunk)));
  state_arenas_.push_back(std::move(arena));
  model::reset(*states_.back());
  return *states_.back();
}

Values TestModel::extend(const TokenBatch& batch,
                         const std::vector<model::SequenceState*>& states) {
  const auto tokens = static_cast<int64_t>(batch.ids.size());
  Values logits;
  run([&](ops::Context& ctx, Arena& activations) {
    const DType real = ops::real_dtype(precision_);
    const auto segments = static_cast<int64_t>(states.size());
    const Tensor last = activations.tensor(real, {segments, config_.vocab});
    const Tensor all = activations.tensor(real, {tokens, config_.vocab});
    model_->extend(ctx, activations, Tensor::of(batch.ids.data(), {tokens}), batch.begins, states,
                   last, all);
    if (!ctx.planning()) logits = values_of(all);
  });
  return logits;
}

}  // namespace athanor::test
