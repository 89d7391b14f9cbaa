// Parameters: the flat space of master weights and gradients, and the handles that layers hold into
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "ops/context.h"

namespace athanor::model {

struct Parameter {
  ParameterSpec spec;
  int64_t offset = 0;  ///< first element in the flat space
  Tensor value;        ///< real, a view of the flat values
  Tensor gradient;     ///< real, a view of the current flat gradients; empty in inference
};

/// Told by the backward when a parameter's gradient of this micro-batch is complete: buckets belong
/// to `train`, the reduction to `comm`. This one waits for none.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void ready(const Parameter&) {}
};

/// All parameters of a model in one dense flat array (no padding), and the balancing biases beside it. The matrices lie behind
/// everything else, both in the order of parameter_specs: ranks that share the flat space then share each kind of work
/// evenly. In a planning arena only shapes exist.
class Parameters {
 public:
  /// Takes the values (and nothing else) from `values`.
  Parameters(const ModelConfig& config, ops::Precision precision, Arena& values);

  /// Points every Parameter::gradient into `flat` (real [numel()]); the trainer swaps accumulators
  /// this way.
  void set_gradients(const Tensor& flat);

  const ModelConfig& config() const { return config_; }
  ops::Precision precision() const { return precision_; }
  int64_t numel() const { return numel_; }
  const Tensor& flat() const { return flat_; }
  /// Where the matrices (attention, router, experts) begin in the flat space.
  int64_t matrices_begin() const { return matrices_begin_; }
  /// In the order of parameter_specs.
  std::span<Parameter> all() { return parameters_; }
  std::span<const Parameter> all() const { return parameters_; }
  /// By Hugging Face name; bug(70) when there is none.
  const Parameter& find(std::string_view name) const;
  /// Biases of a layer, real [E+1]; all of them real [L, E+1].
  const Tensor& balancing_biases() const { return biases_; }

  /// Draws initial values: matrices, convolutions, embedding and experts N(0, initializer_range²),
  /// scales, norms, γ and temperatures 1, biases 0, balancing biases 0 with the skip class −1. Each
  /// parameter has its own random stream, by name.
  void initialise(ops::Context& ctx, uint64_t seed);

  /// Raised by whoever changes values; the model repacks when it differs from what it packed.
  uint64_t version() const { return version_; }
  void touch() { ++version_; }

 private:
  ModelConfig config_;
  ops::Precision precision_;
  int64_t numel_ = 0;
  int64_t matrices_begin_ = 0;
  Tensor flat_;
  Tensor biases_;
  std::vector<Parameter> parameters_;
  uint64_t version_ = 1;
};

}  // namespace athanor::model
