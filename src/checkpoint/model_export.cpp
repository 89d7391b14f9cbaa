// Writing a model directory that Hugging Face, vLLM and SGLang load.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/new_directories.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/temporary_directory.h"

namespace athanor::checkpoint {
namespace {

constexpr int64_t kPiece = int64_t{1} << 18;  // elements converted at a time

struct Stored {
  model::ParameterSpec spec;
  DType dtype;
  uint64_t bytes() const { return static_cast<uint64_t>(spec.numel()) * size_of(dtype); }
};

using Shard = std::vector<Stored>;

// Cuts the tensors into files of at most `shard_bytes`, in the model's order; a larger tensor has a
// file of its own.
std::vector<Shard> shards_of(const model::ModelConfig& config, const ExportOptions& options) {
  std::vector<Stored> tensors;
  for (const auto& spec : model::parameter_specs(config)) tensors.push_back({spec, options.dtype});
  for (const auto& spec : model::buffer_specs(config)) tensors.push_back({spec, DType::kF32});
  std::vector<Shard> shards(1);
  uint64_t filled = 0;
  for (Stored& tensor : tensors) {
    if (!shards.back().empty() && filled + tensor.bytes() > options.shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += tensor.bytes();
    shards.back().push_back(std::move(tensor));
  }
  for (Shard& shard : shards) {  // the order of the reference writer: wide dtypes first, then names
    std::sort(shard.begin(), shard.end(), [](const Stored& a, const Stored& b) {
      return std::pair(size_of(b.dtype), std::string_view(a.spec.name)) <
             std::pair(size_of(a.dtype), std::string_view(b.spec.name));
    });
  }
  return shards;
}

void write_shard(const fs::path& path, const Shard& shard, const WeightSource& source) {
  std::vector<TensorLayout> layout;
  for (const Stored& tensor : shard) {
    layout.push_back({tensor.spec.name, tensor.dtype, tensor.spec.shape});
  }
  SafetensorsWriter writer(path, std::move(layout), ExitCode::kResources);
  std::vector<float> values(kPiece);
  std::vector<bfloat16> rounded(kPiece);
  for (const Stored& tensor : shard) {
    const int64_t numel = tensor.spec.numel();
    for (int64_t begin = 0; begin < numel; begin += kPiece) {
      const int64_t count = std::min(kPiece, numel - begin);
      source(tensor.spec, begin, Tensor::of(values.data(), {count}));
      if (tensor.dtype == DType::kF32) {
        writer.write(values.data(), static_cast<size_t>(count) * sizeof(float));
      } else {
        convert_elements(values.data(), DType::kF32, rounded.data(), DType::kBF16, count);
        writer.write(rounded.data(), static_cast<size_t>(count) * sizeof(bfloat16));
      }
    }
  }
  writer.close();
}

void write_weights(const TemporaryDirectory& target, const std::vector<Shard>& shards,
                   const WeightSource& source) {
  if (shards.size() == 1) {
    write_shard(target.path() / "model.safetensors", shards[0], source);
    return;
  }
  nlohmann::json places = nlohmann::json::object();
  uint64_t bytes = 0;
  int64_t elements = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, shards.size());
    write_shard(target.path() / name, shards[i], source);
    for (const Stored& tensor : shards[i]) {
      places[tensor.spec.name] = name;
      bytes += tensor.bytes();
      elements += tensor.spec.numel();
    }
  }
  const nlohmann::json index{{"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
                             {"weight_map", std::move(places)}};
  target.write_file("model.safetensors.index.json", index.dump(2) + "\n");
}

bool is_model_file(const std::string& name) {
  return name == "config.json" || name == kGenerationConfig ||
         name == "model.safetensors.index.json" || name == "special_tokens_map.json" ||
         (name.starts_with("model") && name.ends_with(".safetensors")) ||
         name.starts_with("tokenizer") || name.starts_with("chat_template");
}

// An existing directory is replaced only if nothing in it can be missed.
void require_replaceable(const fs::path& directory, std::span<const SideFile> side_files) {
  if (!fs::exists(fs::symlink_status(directory))) return;
  if (!fs::is_directory(directory)) {
    throw usage_error(directory.string() + " exists and is not a directory; name another");
  }
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    const bool ours = std::any_of(side_files.begin(), side_files.end(),
                                  [&](const SideFile& side) { return side.name == name; });
    if (!entry.is_regular_file() || !(ours || is_model_file(name))) {
      throw usage_error(
          fmt::format("{} exists and holds {}, which is no part of a model; name another directory",
                      directory.string(), name));
    }
  }
}

}  // namespace

WeightSource weights_of(const model::Parameters& parameters) {
  return [&parameters, buffers = model::buffer_specs(parameters.config())](
             const model::ParameterSpec& spec, int64_t begin, const Tensor& into) {
    const auto buffer = std::find_if(buffers.begin(), buffers.end(),
                                     [&](const auto& own) { return own.name == spec.name; });
    const Tensor value = buffer == buffers.end() ? parameters.find(spec.name).value
                                                 : parameters.balancing_biases().slice_rows(
                                                       std::distance(buffers.begin(), buffer), 1);
    convert_elements(value.data() + static_cast<size_t>(begin) * size_of(value.dtype()),
                     value.dtype(), into.data(), into.dtype(), into.numel());
  };
}

void export_model(const fs::path& directory, const model::ModelConfig& config,
                  const WeightSource& source, std::span<const SideFile> side_files,
                  const ExportOptions& options) {
  require(options.dtype == DType::kBF16 || options.dtype == DType::kF32,
          "a model is exported as bf16 or fp32");
  fs::path target = fs::absolute(directory).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "model/"
  require_replaceable(target, side_files);
  const NewDirectories parents(target.parent_path());
  TemporaryDirectory temporary(target.parent_path() / fmt::format(".{}.tmp{}",
                                                                  target.filename().string(),
                                                                  static_cast<int64_t>(getpid())));
  temporary.write_file("config.json", model_config_json(config, options.dtype));
  temporary.write_file(kGenerationConfig, generation_config_json(config));
  for (const SideFile& side : side_files) temporary.write_file(side.name, side.content);
  write_weights(temporary, shards_of(config, options), source);
  temporary.commit(target);
}

}  // namespace athanor::checkpoint
