#include "optim/controller.h"

#include <numeric>

#include "ops/update.h"

namespace athanor::optim {
namespace {

void set(const Tensor& t, int64_t i, double value) {
  if (t.dtype() == DType::kF64) {
    t.as<double>()[i] = value;
  } else {
    t.as<float>()[i] = static_cast<float>(value);
  }
}

}  // namespace

BalancingController::BalancingController(const model::ModelConfig& config, ops::Precision precision,
                                         Arena& arena)
    : layers_(config.layers), experts_(config.experts) {
  const DType real = ops::real_dtype(precision);
  exp_avg_ = arena.tensor(real, {layers_, experts_ + 1});
  exp_avg_sq_ = arena.tensor(real, {layers_, experts_ + 1});
  gradient_ = arena.tensor(real, {layers_, experts_ + 1});
  const std::vector<model::ParameterSpec> specs = model::buffer_specs(config);
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const std::string& name = specs[static_cast<size_t>(layer)].name;
    state_.push_back({"optimizer.exp_avg." + name, {experts_ + 1}, 0, exp_avg_.at(layer)});
    state_.push_back({"optimizer.exp_avg_sq." + name, {experts_ + 1}, 0, exp_avg_sq_.at(layer)});
  }
}

void BalancingController::step(ops::Context& ctx, const Tensor& biases,
                               std::span<const int64_t> counts, double learning_rate,
                               int64_t step) const {
  require(static_cast<int64_t>(counts.size()) == layers_ * (experts_ + 1),
          "balancing: counts of another geometry");
  ops::AdamWOptions adamw;
  adamw.learning_rate = learning_rate;
  adamw.beta1 = 0.9;
  adamw.beta2 = 0.999;
  adamw.epsilon = 1e-8;
  adamw.weight_decay = 0;
  adamw.step = step;
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto of_layer = counts.subspan(static_cast<size_t>(layer * (experts_ + 1)),
                                         static_cast<size_t>(experts_ + 1));
    const int64_t tokens = std::accumulate(of_layer.begin(), of_layer.end(), int64_t{0});
    if (tokens == 0 && !ctx.planning()) continue;
    const Tensor gradient = gradient_.at(layer);
    if (!ctx.planning()) {
      const auto denominator = static_cast<double>(tokens) * static_cast<double>(experts_);
      for (int64_t e = 0; e < experts_; ++e) {
        const int64_t excess = of_layer[static_cast<size_t>(e)] * experts_ - tokens;
        set(gradient, e, static_cast<double>(excess) / denominator);
      }
      set(gradient, experts_, 0.0);  // m and v stay 0, and so does the skip class's move
    }
    ops::adamw(ctx, biases.at(layer), gradient, exp_avg_.at(layer), exp_avg_sq_.at(layer), adamw);
  }
}

}  // namespace athanor::optim
