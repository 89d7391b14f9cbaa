// A small model with all its memory, random values everywhere, and finite differences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/model.h"

namespace athanor::model {

constexpr size_t kRoom = size_t{1} << 30;  // reserved, and touched only where used

inline double get(const Tensor& t, int64_t i) {
  const int64_t r = i / t.cols(), c = i % t.cols();
  switch (t.dtype()) {
    case DType::kF64:
      return t.row<double>(r)[c];
    case DType::kF32:
      return t.row<float>(r)[c];
    case DType::kBF16:
      return static_cast<float>(t.row<bfloat16>(r)[c]);
    default:
      return t.row<int32_t>(r)[c];
  }
}

inline void set(const Tensor& t, int64_t i, double value) {
  const int64_t r = i / t.cols(), c = i % t.cols();
  switch (t.dtype()) {
    case DType::kF64:
      t.row<double>(r)[c] = value;
      break;
    case DType::kF32:
      t.row<float>(r)[c] = static_cast<float>(value);
      break;
    case DType::kBF16:
      t.row<bfloat16>(r)[c] = bfloat16(static_cast<float>(value));
      break;
    default:
      t.row<int32_t>(r)[c] = static_cast<int32_t>(value);
  }
}

inline std::vector<double> copy_of(const Tensor& t) {
  std::vector<double> values(t.numel());
  for (int64_t i = 0; i < t.numel(); ++i) values[i] = get(t, i);
  return values;
}

inline void clear(const Tensor& t) { std::memset(t.data(), 0, t.bytes()); }

inline void fill_normal(const Tensor& t, RandomStream& random, double mean, double deviation) {
  for (int64_t i = 0; i < t.numel(); ++i) set(t, i, mean + deviation * random.normal());
}

/// Values with which every term of every equation matters, and softmaxes stay away from 0 and 1.
inline void randomise(Parameters& parameters, uint64_t seed) {
  RandomStream random(seed, stream_of("parameters"));
  for (Parameter& p : parameters.all()) {
    const bool bias = p.spec.name.ends_with("bias");
    if (p.spec.kind == ParameterKind::kVector) {
      fill_normal(p.value, random, bias ? 0.0 : 1.0, 0.3);
    } else {
      const bool grouped = p.spec.name.ends_with("grouped.weight");
      const double fan_in = static_cast<double>(p.value.cols() * (grouped ? p.spec.shape[1] : 1));
      const double scale = p.spec.kind == ParameterKind::kEmbedding ? 1.0 : 1.0 / std::sqrt(fan_in);
      fill_normal(p.value, random, 0, scale);
    }
  }
  const Tensor& biases = parameters.balancing_biases();
  fill_normal(biases, random, 0, 0.1);
  for (int64_t l = 0; l < biases.rows(); ++l) set(biases, (l + 1) * biases.cols() - 1, -1);
  parameters.touch();
}

struct SinkLog : GradientSink {
  std::vector<std::string> names;
  void ready(const Parameter& parameter) override { names.push_back(parameter.spec.name); }
};

inline ModelConfig small_config() {
  ModelConfig c;
  c.layers = 2;
  c.hidden = 7;
  c.heads = {4, 2, 6};
  c.experts = 3;
  c.expert_inner = 5;
  c.router = 5;
  c.vocab = 11;
  c.partial_rotary = 0.7;  // 4 of 6 dimensions
  c.layer_kinds = {LayerKind::kFull, LayerKind::kSliding};
  c.sliding_window = 3;
  c.theta = 100;
  c.theta_sliding = 10;
  c.max_positions = 64;
  return c;
}

inline Tensor ints(Arena& arena, const std::vector<int32_t>& values) {
  const Tensor t = arena.tensor(DType::kI32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.as<int32_t>());
  return t;
}

/// Parameters, gradients, model and memory.
struct Lab {
  ModelConfig config;
  Arena values{"values"}, weights{"weights"}, activations{"activations"}, scratch{"scratch"},
      batches{"batches"};
  ops::Context ctx;
  std::unique_ptr<Parameters> parameters;
  Tensor gradients;
  std::unique_ptr<Model> model;
  Statistics statistics;
  SinkLog sink;

  Lab(const ModelConfig& c, ops::Precision precision, uint64_t seed,
      std::vector<bool> recompute = {}, int threads = 1, ops::Isa isa = ops::detected_isa(),
      int64_t positions = 64)
      : config(c), ctx(Threads(threads), scratch, isa) {
    for (Arena* arena : {&values, &weights, &activations, &scratch, &batches})
      arena->reserve(kRoom);
    parameters = std::make_unique<Parameters>(config, precision, values);
    randomise(*parameters, seed);
    gradients = values.tensor(ops::real_dtype(precision), {parameters->numel()});
    parameters->set_gradients(gradients);
    model = std::make_unique<Model>(*parameters, weights,
                                    ModelOptions{true, std::move(recompute), positions});
  }

  Tensor ints(const std::vector<int32_t>& ids) { return model::ints(batches, ids); }

  Statistics train(const Batch& batch, double scale = 1.0, const Observer& observer = {}) {
    clear(gradients);
    sink.names.clear();
    Statistics s;
    model->forward_backward(ctx, activations, batch, scale, sink, s, observer);
    EXPECT_EQ(activations.used(), 0u);
    EXPECT_EQ(scratch.used(), 0u);
    return s;
  }

  double loss(const Batch& batch) {
    parameters->touch();
    Statistics s;
    model->forward(ctx, activations, batch, {}, s);
    return s.loss_sum;
  }
};

inline std::vector<int32_t> random_ids(int64_t n, int64_t vocab, uint64_t seed) {
  RandomStream random(seed, stream_of("ids"));
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab)));
  return ids;
}

/// Compares `gradient` with central differences of `loss` in every element of `value`: within 1e-6
/// of the tensor's largest.
inline void expect_gradient(const std::string& name, const Tensor& value,
                            const std::vector<double>& gradient,
                            const std::function<double()>& loss, double step = 1e-5) {
  std::vector<double> numeric(value.numel());
  double largest = 1e-3;
  for (int64_t i = 0; i < value.numel(); ++i) {
    const double x = get(value, i);
    set(value, i, x + step);
    const double above = loss();
    set(value, i, x - step);
    const double below = loss();
    set(value, i, x);
    numeric[i] = (above - below) / (2 * step);
    largest = std::max(largest, std::abs(numeric[i]));
  }
  for (int64_t i = 0; i < value.numel(); ++i) {
    ASSERT_NEAR(gradient[i], numeric[i], 1e-6 * largest) << name << " element " << i;
  }
}

}  // namespace athanor::model
