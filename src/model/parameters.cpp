#include "model/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/random.h"

namespace athanor::model {
namespace {

Tensor view(const Tensor& flat, const Parameter& p) {
  return flat.part(p.offset, p.spec.numel()).reshaped(p.spec.shape);
}

bool starts_at_one(std::string_view name) {
  return name.ends_with("norm.weight") || name.ends_with("_scale") || name.ends_with(".temp");
}

template <class Real>
void initialise_as(ops::Context& ctx, std::span<Parameter> parameters, const Tensor& biases,
                   double deviation, uint64_t seed) {
  for (const Parameter& p : parameters) {
    if (p.spec.kind != ParameterKind::kVector) {
      ops::fill_normal(ctx, p.value, deviation, seed, p.spec.name.c_str());
    } else {
      std::fill_n(p.value.as<Real>(), p.value.numel(),
                  starts_at_one(p.spec.name) ? Real{1} : Real{0});
    }
  }
  for (int64_t l = 0; l < biases.rows(); ++l) {
    std::fill_n(biases.row<Real>(l), biases.cols(), Real{0});
    biases.row<Real>(l)[biases.cols() - 1] = Real{-1};
  }
}

}  // namespace

Parameters::Parameters(const ModelConfig& config, ops::Precision precision, Arena& values,
                       bool with_matrices)
    : config_(config), precision_(precision) {
  config_.validate();
  const DType real = ops::real_dtype(precision);
  for (ParameterSpec& spec : parameter_specs(config_)) {
    parameters_.push_back({std::move(spec), 0, {}, {}});
  }
  for (const bool matrices : {false, true}) {
    if (matrices) matrices_begin_ = numel_;
    for (Parameter& p : parameters_) {
      if (is_matrix(p.spec.kind) != matrices) continue;
      p.offset = numel_;
      numel_ += p.spec.numel();
    }
  }
  flat_ = values.tensor(real, {with_matrices ? numel_ : matrices_begin_});
  biases_ = values.tensor(real, {config_.layers, config_.classes()});
  for (Parameter& p : parameters_) {
    if (with_matrices || !is_matrix(p.spec.kind)) p.value = view(flat_, p);
  }
  space_ = {flat_.part(0, matrices_begin_), {}, matrices_begin_};
  if (with_matrices) space_ = space_of(flat_);
}

FlatSpace Parameters::space_of(const Tensor& flat) const {
  return {flat.part(0, matrices_begin_), flat.part(matrices_begin_, numel_ - matrices_begin_),
          matrices_begin_};
}

void Parameters::set_matrices(const Tensor& flat) {
  require(flat.dtype() == flat_.dtype() && flat.numel() == numel_ && flat.contiguous() &&
              flat_.numel() < numel_,
          "the matrices must lie as in the flat space, and nowhere else");
  for (Parameter& p : parameters_) {
    if (is_matrix(p.spec.kind)) p.value = view(flat, p);
  }
  space_.matrices = space_of(flat).matrices;
}

void Parameters::set_gradients(const Tensor& flat) {
  require(flat.dtype() == flat_.dtype() && flat.numel() == numel_ && flat.contiguous(),
          "the gradients must lie as the values do");
  for (Parameter& p : parameters_) p.gradient = view(flat, p);
}

const Parameter& Parameters::find(std::string_view name) const {
  for (const Parameter& p : parameters_) {
    if (p.spec.name == name) return p;
  }
  throw bug(fmt::format("the model has no parameter '{}'", name));
}

void Parameters::initialise(ops::Context& ctx, uint64_t seed) {
  touch();
  if (ctx.planning()) return;
  if (flat_.dtype() == DType::kF64) {
    initialise_as<double>(ctx, parameters_, biases_, config_.initializer_range, seed);
  } else {
    initialise_as<float>(ctx, parameters_, biases_, config_.initializer_range, seed);
  }
}

}  // namespace athanor::model
