// Model directories as Hugging Face, vLLM and SGLang load them: config.json, model*.safetensors,
// the tokenizer (zaya1.md §5).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "checkpoint/weights.h"
#include "model/config.h"
#include "model/parameters.h"

namespace athanor::checkpoint {

inline constexpr const char* kGenerationConfig = "generation_config.json";

/// A small file that travels with a model or checkpoint: the tokenizer's files.
struct SideFile {
  std::string name;  ///< without a folder
  std::string content;
};

/// Which layout a config.json belongs to. Throws kData naming `where` and the key: a model_type other than zaya, quantised
/// weights, keys of both layouts.
Layout parse_layout(std::string_view json_text, const std::string& where);
/// parse_layout of `directory`/config.json.
Layout read_layout(const fs::path& directory);

/// The geometry in the text of a config.json of either layout, in every form that versions wrote: of the native one with
/// partial_rotary_factor at the top or inside rope_parameters, with or without an outer rope_type, with or without
/// layer_types; of the legacy one with single sizes or lists with an entry for each half-layer. Throws kData naming `where`
/// and the key: what parse_layout refuses, a key missing or of the wrong type, and whatever the equations exclude.
model::ModelConfig parse_model_config(std::string_view json_text, const std::string& where);
/// Takes from a generation_config.json the tokens that end a text, one or a list. Throws kData.
void parse_generation_config(std::string_view json_text, const std::string& where,
                             model::ModelConfig& config);
/// The geometry of `directory`: its config.json, and its generation_config.json where there is one.
model::ModelConfig read_model_config(const fs::path& directory);

/// config.json as save_pretrained of transformers 5.24 writes it for this model; `dtype` is that of
/// the stored weights.
std::string model_config_json(const model::ModelConfig& config, DType dtype);
/// config.json of the legacy layout, with the keys of zaya1.md §5.2. kData for a window of 1, which it cannot say.
std::string legacy_config_json(const model::ModelConfig& config, DType dtype);
/// generation_config.json: the ids of the special tokens, of EOS those that end a generated text.
std::string generation_config_json(const model::ModelConfig& config);

/// True when one of the files is a generation_config.json, which then stays as it is.
bool holds_generation_config(std::span<const SideFile> side_files);
/// The files of `directory` that travel with its weights wherever they go, as they are: the tokenizer's and
/// generation_config.json.
std::vector<SideFile> read_side_files(const fs::path& directory);

/// Fills `parameters` (values and balancing biases, the skip class's as stored) from the directory's weights, of either layout,
/// and raises their version. Throws kData naming file and tensor (DirectoryWeights, load in checkpoint/weights.h).
void load_weights(const fs::path& directory, model::Parameters& parameters);

struct ExportOptions {
  DType dtype = DType::kBF16;  ///< kBF16 or kF32; balancing biases are always F32
  uint64_t shard_bytes =
      5'000'000'000;  ///< a model that is larger is cut into shards with an index, as Hugging Face cuts them
  Layout layout = Layout::kNative;
};

/// Writes a model directory: config.json, generation_config.json (unless `side_files` holds one), model*.safetensors and
/// `side_files`. It appears complete or not at all, replacing a model directory of that name. Memory is that of a piece of a
/// tensor. Throws kUsage when `directory` exists and is not one, kData when a weight is no number.
void export_model(const fs::path& directory, const model::ModelConfig& config,
                  const WeightSource& source, std::span<const SideFile> side_files,
                  const ExportOptions& options);

}  // namespace athanor::checkpoint
