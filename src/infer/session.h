// A model loaded for inference: what MODEL on the command line names, its tokenizer, its weights
// and the memory it runs in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/files.h"
#include "checkpoint/open_model.h"
#include "data/tokenizer.h"
#include "model/model.h"
#include "ops/context.h"

namespace athanor::infer {

/// What MODEL is, before its weights are read.
struct ModelFiles {
  checkpoint::OpenedModel opened;
  std::unique_ptr<data::Tokenizer> tokenizer =
      nullptr;  ///< null when there is none: then only token ids are served

  /// The token that stood before every document in training, or −1 where none did.
  int32_t bos = -1;
  /// Tokens of the longest sequence in training; max_positions where nothing tells.
  int64_t trained_sequence = 0;

  const model::ModelConfig& config() const { return opened.config; }
  /// The tokenizer; kUsage when there is none ("… needs one: give --ids").
  const data::Tokenizer& require_tokenizer() const;
};

/// Opens a checkpoint, a run directory or a model directory (DESIGN §2) and its tokenizer; how the model was shown its text
/// comes from tokenizer_config.json (data/text_settings.h). Damaged checkpoints that were passed over are warned of.
/// Throws kData naming what is missing or wrong.
ModelFiles open_model_files(const fs::path& model);

/// "bf16" or "fp32".
ops::Precision parse_precision(std::string_view text);

/// Runs the work that a session will do; called once with everything planning, so that the arenas
/// can be sized.
using Work = std::function<void(ops::Context& ctx, model::Model& model, Arena& activations)>;

/// Weights in memory, ready for forward passes and decoding; no gradients.
class Session {
 public:
  /// Lays out memory for sequences of up to `longest_sequence` tokens and for `work`, then reads
  /// the weights. Throws kResources when they do not fit into this machine, kData when a weight is
  /// missing or damaged.
  Session(const ModelFiles& files, ops::Precision precision, int64_t longest_sequence,
          const Work& work);
  /// The bytes that such a session takes.
  static uint64_t memory_for(const ModelFiles& files, ops::Precision precision,
                             int64_t longest_sequence, const Work& work);

  ops::Context& context() { return *context_; }
  model::Model& model() { return *model_; }
  /// At least as large as `work` asked for.
  Arena& activations() { return activations_; }

  /// Makes room for other work: the arenas grow where they are too small.
  void make_room(const Work& work);

 private:
  Arena values_{"parameters"};
  Arena weights_{"packed weights"};
  Arena activations_{"activations"};
  Arena scratch_{"scratch"};
  std::optional<model::Parameters> parameters_;
  std::optional<model::Model> model_;
  std::optional<ops::Context> context_;
};

}  // namespace athanor::infer
