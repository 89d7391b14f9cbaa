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

/// The flat space, or some of it, where its matrices and the rest need not lie together.
struct FlatSpace {
  Tensor rest;      ///< elements [0, rest.numel())
  Tensor matrices;  ///< elements from matrices_begin
  int64_t matrices_begin = 0;

  /// Elements [begin, begin + count), all of them of one of the two.
  Tensor part(int64_t begin, int64_t count) const {
    return begin < rest.numel() ? rest.part(begin, count)
                                : matrices.part(begin - matrices_begin, count);
  }
};

/// All parameters of a model in one dense flat array (no padding), and the balancing biases beside it. The matrices lie behind
/// everything else, both in the order of parameter_specs: ranks that share the flat space then share each kind of work
/// evenly. In a planning arena only shapes exist.
class Parameters {
 public:
  /// Takes the values (and nothing else) from `values`; those of the matrices only where `with_matrices`, else set_matrices()
  /// says where they are.
  Parameters(const ModelConfig& config, ops::Precision precision, Arena& values,
             bool with_matrices = true);

  /// Points the matrices' values into `flat` (real [numel()], whose other elements mean nothing here). They need to be there
  /// when a model packs them, and whenever they are read by name; between, the memory may serve something else.
  void set_matrices(const Tensor& flat);

  /// Points every Parameter::gradient into `flat` (real [numel()]); the trainer swaps accumulators
  /// this way.
  void set_gradients(const Tensor& flat);

  const ModelConfig& config() const { return config_; }
  ops::Precision precision() const { return precision_; }
  int64_t numel() const { return numel_; }
  /// All values, where they lie together.
  const Tensor& flat() const {
    require(flat_.numel() == numel_, "the parameters do not lie in one array");
    return flat_;
  }
  /// All values.
  const FlatSpace& space() const { return space_; }
  /// The same cut of any array of the flat space's size.
  FlatSpace space_of(const Tensor& flat) const;
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
  Tensor flat_;  ///< all elements, or those before the matrices
  FlatSpace space_;
  Tensor biases_;
  std::vector<Parameter> parameters_;
  uint64_t version_ = 1;
};

}  // namespace athanor::model
