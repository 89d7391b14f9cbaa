// A model from a directory with all its memory, for tests that run it whole.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "model/model.h"
#include "support/golden.h"

namespace athanor::test {

/// Tokens of one batch. `targets` may be empty.
struct TokenBatch {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;
  std::vector<int64_t> begins;
};

/// B rows of T ids (and targets) as B segments, or as the segments `cu_seqlens` gives.
TokenBatch batch_of(const Values& ids, const Values* targets, const Values* cu_seqlens = nullptr);

/// A model and its arenas. Every call plans first and reserves exactly what was planned.
class TestModel {
 public:
  TestModel(const fs::path& directory, ops::Precision precision, bool training,
            int64_t rope_positions = 256);

  /// What the observer saw, "logits" included.
  std::map<std::string, Values> forward(const TokenBatch& batch);
  /// Gradients of the mean loss over targets, by weight name, the mean loss, and where asked for the
  /// tokens of each class [L·(E+1)]. flat_gradients() views them until the next call.
  std::map<std::string, Values> gradients(const TokenBatch& batch, double& loss,
                                          std::vector<int64_t>* expert_counts = nullptr);
  Tensor flat_gradients();

  /// Room for a sequence of `capacity` tokens.
  model::SequenceState& new_state(int64_t capacity, int64_t chunk);
  /// Logits [tokens][V] of tokens that continue `states`.
  Values extend(const TokenBatch& batch, const std::vector<model::SequenceState*>& states);

  const model::ModelConfig& config() const { return config_; }
  model::Parameters& parameters() { return *parameters_; }
  model::Model& model() { return *model_; }

 private:
  /// Runs `pass` once on planning arenas and once for real.
  void run(FunctionRef<void(ops::Context& ctx, Arena& activations)> pass);

  model::ModelConfig config_;
  ops::Precision precision_;
  Threads threads_;
  Arena values_{"values"}, weights_{"weights"};
  std::unique_ptr<model::Parameters> parameters_;
  std::unique_ptr<model::Model> model_;
  std::vector<float> gradients_;
  std::vector<std::unique_ptr<Arena>> state_arenas_;
  std::vector<std::unique_ptr<model::SequenceState>> states_;
};

}  // namespace athanor::test
