// Writing a model directory that Hugging Face, vLLM and SGLang load.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/new_directories.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/temporary_directory.h"
#include "checkpoint/weights.h"

namespace athanor::checkpoint {
namespace {

struct Stored {
  LayoutTensor layout;
  DType dtype;
  bool balancing;
  uint64_t bytes() const { return static_cast<uint64_t>(layout.numel()) * size_of(dtype); }
};

using Shard = std::vector<Stored>;

// Cuts the tensors into files of at most `shard_bytes`, in the layout's order; a larger tensor has a file of its own, and the
// file before it is filled further.
std::vector<Shard> shards_of(const std::vector<ModelTensor>& tensors,
                             const model::ModelConfig& config, const ExportOptions& options) {
  std::vector<Shard> shards;
  Shard open;
  uint64_t filled = 0;
  for (LayoutTensor& placed : layout_tensors(config, options.layout)) {
    const bool balancing = tensors[placed.tensor].balancing;
    Stored tensor{std::move(placed), balancing ? DType::kF32 : options.dtype, balancing};
    if (tensor.bytes() > options.shard_bytes) {
      shards.push_back({std::move(tensor)});
      continue;
    }
    if (filled + tensor.bytes() > options.shard_bytes) {
      shards.push_back(std::exchange(open, {}));
      filled = 0;
    }
    filled += tensor.bytes();
    open.push_back(std::move(tensor));
  }
  if (!open.empty()) shards.push_back(std::move(open));
  for (Shard& shard : shards) {  // the order of the reference writer: wide dtypes first, then names
    std::sort(shard.begin(), shard.end(), [](const Stored& a, const Stored& b) {
      return std::pair(size_of(b.dtype), std::string_view(a.layout.name)) <
             std::pair(size_of(a.dtype), std::string_view(b.layout.name));
    });
  }
  return shards;
}

void write_shard(const fs::path& path, const Shard& shard, const std::vector<ModelTensor>& tensors,
                 const WeightSource& source) {
  std::vector<TensorLayout> layout;
  for (const Stored& tensor : shard) {
    layout.push_back({tensor.layout.name, tensor.dtype, tensor.layout.shape});
  }
  SafetensorsWriter writer(path, std::move(layout), ExitCode::kResources);
  for (const Stored& tensor : shard) {
    stream(source, tensors[tensor.layout.tensor].spec, tensor.layout.begin, tensor.layout.numel(),
           tensor.dtype, [&](const Tensor& piece) { writer.write(piece); });
  }
  writer.close();
}

void write_weights(const TemporaryDirectory& target, const model::ModelConfig& config,
                   const ExportOptions& options, const WeightSource& source) {
  const std::vector<ModelTensor> tensors = model_tensors(config);
  const std::vector<Shard> shards = shards_of(tensors, config, options);
  if (shards.size() == 1) {
    write_shard(target.path() / "model.safetensors", shards[0], tensors, source);
    return;
  }
  nlohmann::json places = nlohmann::json::object();
  uint64_t bytes = 0;
  int64_t parameters = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        fmt::format("model-{:05d}-of-{:05d}.safetensors", i + 1, shards.size());
    write_shard(target.path() / name, shards[i], tensors, source);
    for (const Stored& tensor : shards[i]) {
      places[tensor.layout.name] = name;
      bytes += tensor.bytes();
      if (!tensor.balancing) parameters += tensor.layout.numel();
    }
  }
  nlohmann::json metadata{{"total_size", bytes}};
  if (options.layout == Layout::kNative) metadata["total_parameters"] = parameters;
  const nlohmann::json index{{"metadata", std::move(metadata)}, {"weight_map", std::move(places)}};
  target.write_file("model.safetensors.index.json", index.dump(2) + "\n");
}

/// The tokenizer's files under the names that Hugging Face's tokenizers have for them, and how to generate.
bool is_side_file(const std::string& name) {
  return name == kGenerationConfig || name == "special_tokens_map.json" ||
         name == "added_tokens.json" || name == "vocab.json" || name == "merges.txt" ||
         name.starts_with("tokenizer") || name.starts_with("chat_template");
}

bool is_model_file(const std::string& name) {
  return name == "config.json" || name == "model.safetensors.index.json" || is_side_file(name) ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
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

bool holds_generation_config(std::span<const SideFile> side_files) {
  return std::any_of(side_files.begin(), side_files.end(),
                     [](const SideFile& side) { return side.name == kGenerationConfig; });
}

std::vector<SideFile> read_side_files(const fs::path& directory) {
  std::vector<SideFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (is_side_file(name)) files.push_back({name, read_file(entry->path())});
  }
  if (error) throw system_error(error.value(), "list", directory.string(), ExitCode::kData);
  std::sort(files.begin(), files.end(),
            [](const SideFile& a, const SideFile& b) { return a.name < b.name; });
  return files;
}

void load_weights(const fs::path& directory, model::Parameters& parameters) {
  load(DirectoryWeights(directory, parameters.config(), read_layout(directory)), parameters);
}

void export_model(const fs::path& directory, const model::ModelConfig& config,
                  const WeightSource& source, std::span<const SideFile> side_files,
                  const ExportOptions& options) {
  require(options.dtype == DType::kBF16 || options.dtype == DType::kF32,
          "a model is exported as bf16 or fp32");
  const fs::path target = absolute_target(directory);
  require_replaceable(target, side_files);
  const NewDirectories parents(target.parent_path());
  TemporaryDirectory temporary(temporary_beside(target));
  temporary.write_file("config.json", options.layout == Layout::kNative
                                          ? model_config_json(config, options.dtype)
                                          : legacy_config_json(config, options.dtype));
  if (!holds_generation_config(side_files)) {
    temporary.write_file(kGenerationConfig, generation_config_json(config));
  }
  for (const SideFile& side : side_files) temporary.write_file(side.name, side.content);
  write_weights(temporary, config, options, source);
  temporary.commit(target);
}

}  // namespace athanor::checkpoint
