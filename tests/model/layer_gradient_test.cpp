// Every layer's backward alone, against finite differences in double. The loss is Σ weights ⊙
// output with fixed random weights, so that a layer's input and all of its parameters are checked.
#include <gtest/gtest.h>

#include "lab.h"
#include "model/block.h"
#include "ops/norm.h"

namespace athanor::model {
namespace {

struct Shape {
  ModelConfig config;
  std::vector<int64_t> begins;
};

/// Random small shapes, primes among them.
Shape random_shape(uint64_t seed) {
  RandomStream random(seed, stream_of("shape"));
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return *(values.begin() + random.below(values.size()));
  };
  Shape shape;
  ModelConfig& c = shape.config;
  c.layers = 2;
  c.hidden = pick({3, 5, 8, 11});
  c.heads.key = pick({1, 2, 3});
  c.heads.query = c.heads.key * pick({1, 2, 3});
  c.heads.size = pick({2, 4, 6});
  c.experts = pick({1, 2, 5});
  c.expert_inner = pick({1, 3, 4, 7});
  c.router = pick({2, 3, 5});
  c.vocab = 7;
  c.partial_rotary = c.heads.size == 6 ? 0.7 : 0.5;
  if (c.heads.size == 2) c.partial_rotary = 1;
  c.layer_kinds = {random.below(2) == 0 ? LayerKind::kFull : LayerKind::kSliding,
                   LayerKind::kSliding};
  c.sliding_window = pick({1, 2, 3});
  c.theta = 50;
  c.theta_sliding = 10;
  shape.begins = {0};
  for (int64_t s = pick({1, 2, 4}); s > 0; --s) {
    shape.begins.push_back(shape.begins.back() + pick({1, 2, 3, 5}));
  }
  return shape;
}

/// What a layer needs around it.
struct Bench {
  Shape shape;
  Lab lab;
  ops::RopeTable rope;
  std::vector<ops::AttentionSegment> segments;
  RandomStream random;
  int64_t tokens;

  explicit Bench(uint64_t seed)
      : shape(random_shape(seed)),
        lab(shape.config, ops::Precision::kFp64, seed),
        rope(ops::make_rope_table(lab.weights, DType::kF64, 20, shape.config.rotary(), 16)),
        random(seed, stream_of("bench")),
        tokens(shape.begins.back()) {
    clear(lab.gradients);
  }

  Tensor zeros(int64_t cols) {
    const Tensor t = lab.batches.tensor(DType::kF64, {tokens, cols});
    clear(t);
    return t;
  }
  Tensor noise(int64_t cols) {
    const Tensor t = zeros(cols);
    fill_normal(t, random, 0, 1);
    return t;
  }
  Pass pass() {
    const Tensor positions = lab.batches.tensor(DType::kI32, {tokens});
    for (size_t s = 0; s + 1 < shape.begins.size(); ++s) {
      for (int64_t t = shape.begins[s]; t < shape.begins[s + 1]; ++t) {
        set(positions, t, static_cast<double>(t - shape.begins[s]));
      }
    }
    return {lab.ctx, lab.activations, shape.begins, positions, {}, nullptr, segments};
  }
  /// Checks the parameters of layer `layer` whose names hold one of `parts`.
  void expect_parameters(int64_t layer, const std::vector<std::string>& parts,
                         const std::function<double()>& loss) {
    int64_t checked = 0;
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const Parameter& p : lab.parameters->all()) {
      const bool mine = std::ranges::any_of(
          parts, [&](const std::string& part) { return p.spec.name.starts_with(prefix + part); });
      if (!mine) continue;
      ++checked;
      expect_gradient(p.spec.name, p.value, copy_of(p.gradient), loss);
    }
    EXPECT_GE(checked, static_cast<int64_t>(parts.size()));
  }
};

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += get(a, i) * get(b, i);
  return sum;
}

class LayerGradient : public testing::TestWithParam<uint64_t> {};

TEST_P(LayerGradient, Cca) {
  Bench bench(GetParam());
  const int64_t hidden = bench.shape.config.hidden;
  for (const int64_t layer : {0, 1}) {
    Cca cca(*bench.lab.parameters, layer, bench.lab.weights, true, bench.rope);
    Pass pass = bench.pass();
    const CcaActivations saved = cca.allocate(bench.lab.batches, bench.tokens);
    const Tensor x = bench.noise(hidden), weights = bench.noise(hidden);
    const Tensor out = bench.zeros(hidden), dx = bench.zeros(hidden);
    const auto loss = [&] {
      cca.refresh(bench.lab.ctx);
      cca.forward(pass, x, saved, out);
      return dot(weights, out);
    };
    loss();
    cca.backward(pass, weights, x, saved, dx, bench.lab.sink);
    expect_gradient("x", x, copy_of(dx), loss);
    bench.expect_parameters(layer, {"self_attn."}, loss);
  }
}

/// Two routers in a chain: the state's gradient flows through the depth, and each layer's weight is
/// used.
TEST_P(LayerGradient, RouterChain) {
  Bench bench(GetParam());
  const ModelConfig& c = bench.shape.config;
  Router first(*bench.lab.parameters, 0, bench.lab.weights, true);
  Router second(*bench.lab.parameters, 1, bench.lab.weights, true);
  Pass pass = bench.pass();
  const RouterActivations saved0 = first.allocate(bench.lab.batches, bench.tokens);
  const RouterActivations saved1 = second.allocate(bench.lab.batches, bench.tokens);
  const Tensor x0 = bench.noise(c.hidden), x1 = bench.noise(c.hidden);
  const Tensor state0 = bench.zeros(c.router), state1 = bench.zeros(c.router);
  const Tensor w0 = bench.noise(1), w1 = bench.noise(1), last = bench.noise(c.router);
  const auto loss = [&] {
    first.refresh(bench.lab.ctx);
    second.refresh(bench.lab.ctx);
    first.forward(pass, x0, {}, saved0, state0);
    second.forward(pass, x1, state0, saved1, state1);
    return dot(w0, saved0.weight) + dot(w1, saved1.weight) + dot(last, state1);
  };
  loss();
  const Tensor dstate = bench.zeros(c.router), dprevious = bench.zeros(c.router);
  const Tensor dx0 = bench.zeros(c.hidden), dx1 = bench.zeros(c.hidden);
  for (int64_t i = 0; i < last.numel(); ++i) set(dstate, i, get(last, i));
  second.backward(pass, w1.reshaped({bench.tokens}), x1, state0, saved1, state1, dstate, dprevious,
                  dx1, bench.lab.sink);
  first.backward(pass, w0.reshaped({bench.tokens}), x0, {}, saved0, state0, dprevious, {}, dx0,
                 bench.lab.sink);
  expect_gradient("x0", x0, copy_of(dx0), loss);
  expect_gradient("x1", x1, copy_of(dx1), loss);
  for (const int64_t layer : {0, 1}) bench.expect_parameters(layer, {"mlp.gate."}, loss);
}

TEST_P(LayerGradient, Experts) {
  Bench bench(GetParam());
  const ModelConfig& c = bench.shape.config;
  Experts experts(*bench.lab.parameters, 0, bench.lab.weights, true);
  Pass pass = bench.pass();
  std::vector<int64_t> offsets(c.classes());
  const ExpertsActivations saved = experts.allocate(bench.lab.batches, bench.tokens, offsets);
  const Tensor x = bench.noise(c.hidden), weights = bench.noise(c.hidden),
               out = bench.zeros(c.hidden);
  const Tensor weight = bench.noise(1).reshaped({bench.tokens});
  const Tensor expert = bench.lab.batches.tensor(DType::kI32, {bench.tokens});
  for (int64_t t = 0; t < bench.tokens; ++t) {
    const auto choice = bench.random.below(static_cast<uint64_t>(c.classes()));  // some skip
    set(expert, t, static_cast<double>(choice));
    if (static_cast<int64_t>(choice) == c.experts) set(weight, t, 0);
  }
  const auto loss = [&] {
    experts.refresh(bench.lab.ctx);
    experts.forward(pass, x, expert, weight, saved, out);
    return dot(weights, out);
  };
  loss();
  const Tensor dweight = bench.zeros(1).reshaped({bench.tokens}), dsorted = bench.zeros(c.hidden);
  experts.backward(pass, weights, weight, saved, dweight, dsorted, bench.lab.sink);
  const Tensor dx = bench.zeros(c.hidden);
  for (int64_t i = 0; i < saved.count(); ++i) {
    for (int64_t j = 0; j < c.hidden; ++j) {
      set(dx, static_cast<int64_t>(get(saved.order, i)) * c.hidden + j,
          get(dsorted, i * c.hidden + j));
    }
  }
  expect_gradient("x", x, copy_of(dx), loss);
  bench.expect_parameters(0, {"mlp.experts."}, loss);
  std::vector<double> expected = copy_of(dweight);
  for (int64_t t = 0; t < bench.tokens; ++t) {
    if (get(expert, t) == static_cast<double>(c.experts)) {
      EXPECT_EQ(expected[t], 0) << "a skipped token's weight has no gradient";
    }
  }
  expect_gradient("weight", weight, expected, loss);
}

TEST_P(LayerGradient, ResidualScaling) {
  Bench bench(GetParam());
  const int64_t hidden = bench.shape.config.hidden;
  const Residual residual(*bench.lab.parameters, "model.layers.1.post_mlp_residual_scale.");
  Pass pass = bench.pass();
  const Tensor m = bench.noise(hidden), r = bench.noise(hidden), weights = bench.noise(hidden);
  const Tensor out = bench.zeros(hidden), dm = bench.zeros(hidden), dr = bench.zeros(hidden);
  const auto loss = [&] {
    residual.forward(pass, m, r, out);
    return dot(weights, out);
  };
  for (int64_t i = 0; i < dr.numel(); ++i) set(dr, i, get(weights, i));
  residual.backward(pass, m, r, dm, dr, bench.lab.sink);
  expect_gradient("m", m, copy_of(dm), loss);
  expect_gradient("r", r, copy_of(dr), loss);
  bench.expect_parameters(1, {"post_mlp_residual_scale."}, loss);
}

TEST_P(LayerGradient, InputAffine) {
  Bench bench(GetParam());
  const int64_t hidden = bench.shape.config.hidden;
  const Residual affine(*bench.lab.parameters, "model.input_", false);
  Pass pass = bench.pass();
  const Tensor m = bench.noise(hidden), weights = bench.noise(hidden);
  const Tensor out = bench.zeros(hidden), dm = bench.zeros(hidden);
  const auto loss = [&] {
    affine.forward(pass, m, {}, out);
    return dot(weights, out);
  };
  affine.backward(pass, m, {}, dm, weights, bench.lab.sink);
  expect_gradient("m", m, copy_of(dm), loss);
  for (const char* name : {"model.input_hidden_states_scale", "model.input_hidden_states_bias"}) {
    const Parameter& p = bench.lab.parameters->find(name);
    expect_gradient(name, p.value, copy_of(p.gradient), loss);
  }
}

TEST_P(LayerGradient, Norm) {
  Bench bench(GetParam());
  const int64_t hidden = bench.shape.config.hidden;
  const Parameter& norm = bench.lab.parameters->find("model.norm.weight");
  const Tensor x = bench.noise(hidden), weights = bench.noise(hidden), y = bench.zeros(hidden);
  const Tensor inv_norm = bench.zeros(1).reshaped({bench.tokens}), dx = bench.zeros(hidden);
  const auto loss = [&] {
    ops::rms_norm(bench.lab.ctx, x, norm.value, 1e-5, y, inv_norm);
    return dot(weights, y);
  };
  loss();
  ops::rms_norm_backward(bench.lab.ctx, weights, x, norm.value, inv_norm, dx, norm.gradient);
  expect_gradient("x", x, copy_of(dx), loss);
  expect_gradient("w", norm.value, copy_of(norm.gradient), loss);
}

TEST_P(LayerGradient, Block) {
  Bench bench(GetParam());
  const ModelConfig& c = bench.shape.config;
  Block block(*bench.lab.parameters, 1, bench.lab.weights, true, bench.rope);
  Pass pass = bench.pass();
  std::vector<int64_t> offsets(c.classes());
  const BlockActivations saved = block.allocate(bench.lab.batches, bench.tokens, offsets);
  const Tensor r = bench.noise(c.hidden), previous = bench.noise(c.router);
  const Tensor out = bench.zeros(c.hidden), state = bench.zeros(c.router);
  const Tensor out_weights = bench.noise(c.hidden), state_weights = bench.noise(c.router);
  const auto loss = [&] {
    block.refresh(bench.lab.ctx);
    block.forward(pass, r, previous, saved, out, state);
    return dot(out_weights, out) + dot(state_weights, state);
  };
  loss();
  const Tensor dr = bench.zeros(c.hidden), dstate = bench.zeros(c.router);
  const Tensor dprevious = bench.zeros(c.router);
  for (int64_t i = 0; i < dr.numel(); ++i) set(dr, i, get(out_weights, i));
  for (int64_t i = 0; i < dstate.numel(); ++i) set(dstate, i, get(state_weights, i));
  block.backward(pass, r, previous, saved, state, dr, dstate, dprevious, bench.lab.sink);
  expect_gradient("residual", r, copy_of(dr), loss);
  expect_gradient("previous state", previous, copy_of(dprevious), loss);
  bench.expect_parameters(1,
                          {"input_layernorm", "self_attn.", "post_attention_residual_scale.",
                           "post_attention_layernorm", "mlp.", "post_mlp_residual_scale."},
                          loss);
}

INSTANTIATE_TEST_SUITE_P(RandomShapes, LayerGradient, testing::Range<uint64_t>(0, 8));

}  // namespace
}  // namespace athanor::model
