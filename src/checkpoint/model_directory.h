// Model directories as Hugging Face, vLLM and SGLang load them: config.json, model*.safetensors,
// the tokenizer (zaya1.md §5.1, §5.3).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "model/config.h"
#include "model/parameters.h"

namespace athanor::checkpoint {

inline constexpr const char* kGenerationConfig = "generation_config.json";

/// A small file that travels with a model or checkpoint: the tokenizer's files.
struct SideFile {
  std::string name;  ///< without a folder
  std::string content;
};

/// The geometry in the text of a native config.json. Both forms of the rotary parameters are read
/// (partial_rotary_factor at the top or inside rope_parameters, with or without an outer
/// rope_type). Throws kData naming `where` and the key: a model_type other than zaya, a legacy
/// layout, a key missing or of the wrong type, and whatever the equations exclude.
model::ModelConfig parse_model_config(std::string_view json_text, const std::string& where);
/// Takes from a generation_config.json the tokens that end a text, one or a list. Throws kData.
void parse_generation_config(std::string_view json_text, const std::string& where,
                             model::ModelConfig& config);
/// The geometry of `directory`: its config.json, and its generation_config.json where there is one.
model::ModelConfig read_model_config(const fs::path& directory);

/// config.json as save_pretrained of transformers 5.24 writes it for this model; `dtype` is that of
/// the stored weights.
std::string model_config_json(const model::ModelConfig& config, DType dtype);
/// generation_config.json: the ids of the special tokens, of EOS those that end a generated text.
std::string generation_config_json(const model::ModelConfig& config);

/// Fills `parameters` (values and balancing biases, the skip class's as stored) from
/// model.safetensors, or from the shards that model.safetensors.index.json names, and raises their
/// version. Stored dtypes F32 and BF16 are accepted. Throws kData naming file and tensor: tensors
/// missing, unexpected, doubled, of another shape or dtype, shards missing.
void load_weights(const fs::path& directory, model::Parameters& parameters);

/// Gives elements [begin, begin + into.numel()) of a tensor; `into` is f32.
using WeightSource =
    std::function<void(const model::ParameterSpec& spec, int64_t begin, const Tensor& into)>;
/// The values of `parameters`, which must outlive the source.
WeightSource weights_of(const model::Parameters& parameters);

struct ExportOptions {
  DType dtype = DType::kBF16;  ///< kBF16 or kF32; balancing biases are always F32
  uint64_t shard_bytes =
      5'000'000'000;  ///< a model that is larger is cut into shards with an index
};

/// Writes a model directory: config.json, generation_config.json, model*.safetensors and
/// `side_files`. It appears complete or not at all, replacing a model directory of that name.
/// Throws kUsage when `directory` exists and is not one.
void export_model(const fs::path& directory, const model::ModelConfig& config,
                  const WeightSource& source, std::span<const SideFile> side_files,
                  const ExportOptions& options);

}  // namespace athanor::checkpoint
