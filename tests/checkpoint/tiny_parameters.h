// A small model's parameters for tests of files.
#pragma once

#include <memory>

#include "model/parameters.h"

namespace athanor::test {

/// One layer, a vocabulary of 11 and odd sizes: a checkpoint of it has few bytes.
inline model::ModelConfig tiny_config() {
  model::ModelConfig config;
  config.layers = 2;
  config.hidden = 3;
  config.heads.query = 2;
  config.heads.key = 1;
  config.heads.size = 2;
  config.experts = 2;
  config.expert_inner = 1;
  config.router = 2;
  config.vocab = 5;
  config.partial_rotary = 1.0;
  config.layer_kinds.assign(2, model::LayerKind::kFull);
  config.max_positions = 16;
  config.bos = 1;
  config.eos = 2;
  return config;
}

/// Parameters with memory of their own; values count up, so that no two elements are alike, and few are exact in bf16.
class OwnParameters {
 public:
  explicit OwnParameters(const model::ModelConfig& config = tiny_config(),
                         ops::Precision precision = ops::Precision::kFp32)
      : arena_("values") {
    model::Parameters plan(config, precision, arena_);
    arena_.reserve(arena_.peak());
    parameters_ = std::make_unique<model::Parameters>(config, precision, arena_);
  }
  OwnParameters& count_up() {
    auto* values = parameters_->flat().as<float>();
    for (int64_t i = 0; i < parameters_->numel(); ++i) values[i] = static_cast<float>(i) * 0.37f;
    const Tensor& biases = parameters_->balancing_biases();
    for (int64_t i = 0; i < biases.numel(); ++i)
      biases.as<float>()[i] = -1.0f - 0.3f * static_cast<float>(i);
    return *this;
  }
  model::Parameters& operator*() { return *parameters_; }
  model::Parameters* operator->() { return parameters_.get(); }
  /// All values and biases.
  std::vector<float> all() const {
    const auto* values = parameters_->flat().as<float>();
    std::vector<float> copy(values, values + parameters_->numel());
    const Tensor& biases = parameters_->balancing_biases();
    copy.insert(copy.end(), biases.as<float>(), biases.as<float>() + biases.numel());
    return copy;
  }

 private:
  Arena arena_;
  std::unique_ptr<model::Parameters> parameters_;
};

}  // namespace athanor::test
