// The geometry of a ZAYA1 model and what follows from it by counting.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/attention.h"

namespace athanor::model {

/// What a message calls the parts of a geometry: the keys of the file that it came from.
struct GeometryKeys {
  const char* layers = "layers";
  const char* hidden = "hidden";
  const char* query_heads = "query_heads";
  const char* key_heads = "key_value_heads";
  const char* head_size = "head_size";
  const char* experts = "experts";
  const char* expert_inner = "expert_inner";
  const char* router = "router";
  const char* vocab = "vocab";
  const char* partial_rotary = "partial_rotary";
  const char* rms_norm_eps = "rms_norm_eps";
  const char* layer_kinds = "layer_kinds";
  const char* sliding_window = "sliding_window";
  const char* theta = "theta";
  const char* theta_sliding = "theta_sliding";
  const char* initializer_range = "initializer_range";
};

enum class LayerKind : uint8_t { kFull, kSliding };

/// Geometry of one model (zaya1.md §1, §5.1). Token ids are −1 where the model has none.
struct ModelConfig {
  int64_t layers = 0;        ///< hybrid layers: attention and experts each
  int64_t hidden = 0;        ///< D
  ops::Heads heads;          ///< Hq, Hk, d
  int64_t experts = 0;       ///< E; the router has one more class, skip
  int64_t expert_inner = 0;  ///< I, width of gate and of up
  int64_t router = 0;        ///< R
  int64_t vocab = 0;         ///< V
  double partial_rotary = 0.5;
  double rms_norm_eps = 1e-5;
  std::vector<LayerKind> layer_kinds;  ///< one a layer
  int64_t sliding_window = 0;          ///< keys a query of a sliding layer sees, itself included
  double theta = 1e4;
  double theta_sliding = 1e4;
  int64_t max_positions = 0;
  double initializer_range = 0.02;
  int64_t bos = -1, eos = -1, pad = -1;
  std::vector<int64_t> further_eos;  ///< more tokens that end a text, behind `eos`
  std::vector<int64_t>
      generation_eos;  ///< all that do when generating, where they are others than these

  /// The tokens that end a generated text.
  std::vector<int64_t> stop_tokens() const;
  int64_t rotary() const;  ///< rotated dimensions of a head: even
  int64_t value_half() const {
    return heads.key * heads.size / 2;
  }  ///< width of each value projection
  int64_t classes() const { return experts + 1; }

  /// Throws kUsage naming the first of `keys` that the equations exclude: sizes below 1 or so large that
  /// counts pass 64 bits, query heads no multiple of key heads, an odd rotary part, an odd value half, a
  /// sliding layer without a window. Everything else works.
  void validate(const GeometryKeys& keys = {}) const;
};

/// Which optimizer rule a parameter falls under (optim/groups.h holds the table).
enum class ParameterKind : uint8_t {
  kEmbedding,       ///< [V, D]
  kMatrix,          ///< 2-D attention and router matrices
  kExpertMatrices,  ///< [E, rows, cols]: each expert its own matrix
  kConvolution,     ///< [C, 1, 2], [C, d, 2]
  kVector,          ///< 1-D
};

/// A matrix by itself, or a stack of them.
constexpr bool is_matrix(ParameterKind kind) {
  return kind == ParameterKind::kMatrix || kind == ParameterKind::kExpertMatrices;
}

/// A stored tensor under its Hugging Face name (zaya1.md §5.3).
struct ParameterSpec {
  std::string name;
  std::vector<int64_t> shape;
  ParameterKind kind = ParameterKind::kVector;
  int64_t numel() const;
};

/// All trained parameters. q, k, v_current and v_delayed of a layer
/// are neighbours, so that the four are one matrix [C + 2·value_half, D].
std::vector<ParameterSpec> parameter_specs(const ModelConfig& config);
/// The balancing biases, [E+1] a layer: no gradient, fp32, moved by the controller alone.
std::vector<ParameterSpec> buffer_specs(const ModelConfig& config);

/// Counts of golden/accounting.
struct ParameterCounts {
  int64_t total = 0, embedding = 0, non_embedding = 0, experts = 0, active_non_embedding = 0,
          active_with_head = 0, muon = 0, adamw = 0, balancing_biases = 0, tensors_stored = 0;
};
ParameterCounts count_parameters(const ModelConfig& config);

/// Useful FLOPs of one training token (forward and backward): 6 × active parameters with the head,
/// plus attention over `mean_keys` visible keys (causal: half the sequence).
double training_flops_per_token(const ModelConfig& config, double mean_keys);

}  // namespace athanor::model
