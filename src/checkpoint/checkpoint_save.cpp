#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/temporary_directory.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;

// Adds what a rank wrote to the manifest's files and to `tensors`.
void merge_record(const RankRecord& record, Manifest& manifest,
                  std::map<std::string, StoredTensor>& tensors) {
  const json root = json::parse(record);
  const std::string file = root.at("name").get<std::string>();
  manifest.files.push_back({file, root.at("bytes").get<uint64_t>(),
                            root.at("checksum").get<std::string>(), /*rank_file=*/true});
  for (const json& slice : root.at("slices")) {
    const auto name = slice.at("name").get<std::string>();
    const DType dtype = dtype_named(slice.at("dtype").get<std::string>()).value();
    const auto shape = slice.at("shape").get<std::vector<int64_t>>();
    StoredTensor& tensor = tensors[name];
    if (tensor.name.empty()) {
      tensor = {name, dtype, shape, {}};
    }
    if (tensor.dtype != dtype || tensor.shape != shape) {
      throw bug("ranks disagree about the tensor " + name);
    }
    tensor.slices.push_back({file, slice.at("offset").get<int64_t>(),
                             slice.at("length").get<int64_t>(),
                             slice.at("checksum").get<std::string>()});
  }
}

/// A slice about to be written, whose bytes somebody else has.
struct Slice {
  std::string name;
  std::vector<int64_t> shape;
  int64_t begin, length;
  DType dtype;
};

RankRecord write_slices(const fs::path& temporary, int rank, std::span<const Slice> slices,
                        const TensorBytes& bytes) {
  const std::string name = fmt::format("rank-{:05d}.safetensors", rank);
  std::vector<TensorLayout> layout;
  for (const Slice& slice : slices) {
    require(
        slice.length > 0 && slice.begin >= 0 && slice.begin + slice.length <= numel_of(slice.shape),
        "a slice to save lies outside its tensor");
    layout.push_back({slice.name, slice.dtype, {slice.length}});
  }
  const std::string header = safetensors_header(layout);
  SafetensorsWriter writer(temporary / name, layout, ExitCode::kResources);
  uint64_t total = header.size();
  json stored = json::array();
  for (size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    Checksum checksum;
    uint64_t written = 0;
    bytes(i, [&](const void* data, size_t count) {
      writer.write(data, count);
      checksum.update(data, count);
      written += count;
    });
    require(written == static_cast<uint64_t>(slice.length) * size_of(slice.dtype),
            "a slice to save was not given whole");
    total += written;
    stored.push_back({{"name", slice.name},
                      {"dtype", name_of(slice.dtype)},
                      {"shape", slice.shape},
                      {"offset", slice.begin},
                      {"length", slice.length},
                      {"checksum", checksum.hex()}});
  }
  writer.close();
  return json{{"name", name},
              {"bytes", total},
              {"checksum", Checksum::of(header.data(), header.size())},
              {"slices", std::move(stored)}}
      .dump();
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:08d}", step); }

CheckpointWriter::CheckpointWriter(const fs::path& folder, int64_t step)
    : CheckpointWriter(folder / checkpoint_name(step), folder / (checkpoint_name(step) + ".tmp"),
                       step) {
  replaces_ = true;
}

CheckpointWriter::CheckpointWriter(fs::path target, const fs::path& temporary, int64_t step)
    : target_(std::move(target)),
      step_(step),
      temporary_(std::make_unique<TemporaryDirectory>(temporary)) {}

CheckpointWriter::~CheckpointWriter() = default;

const fs::path& CheckpointWriter::temporary() const { return temporary_->path(); }

RankRecord write_rank(const fs::path& temporary, int rank, std::span<const TensorSlice> slices) {
  std::vector<Slice> plan;
  for (const TensorSlice& slice : slices) {
    require(slice.data.contiguous(), "a slice to save is not contiguous");
    plan.push_back(
        {slice.name, slice.global_shape, slice.begin, slice.data.numel(), slice.data.dtype()});
  }
  return write_slices(temporary, rank, plan, [&](size_t i, const auto& write) {
    write(slices[i].data.data(), slices[i].data.bytes());
  });
}

RankRecord write_rank(const fs::path& temporary, int rank, std::span<const TensorLayout> tensors,
                      const TensorBytes& bytes) {
  std::vector<Slice> plan;
  for (const TensorLayout& tensor : tensors) {
    plan.push_back({tensor.name, tensor.shape, 0, numel_of(tensor.shape), tensor.dtype});
  }
  return write_slices(temporary, rank, plan, bytes);
}

fs::path CheckpointWriter::commit(const CheckpointInfo& info, const model::ModelConfig& config,
                                  std::span<const RankRecord> records,
                                  std::span<const SideFile> side_files) {
  require(info.step == step_, "a checkpoint's step changed while it was written");
  Manifest manifest;
  manifest.step = step_;
  manifest.ranks = static_cast<int>(records.size());
  manifest.config = info.config;
  manifest.data_cursor = info.data_cursor;
  manifest.random_state = info.random_state;
  manifest.state = info.state;

  std::map<std::string, StoredTensor> tensors;
  for (const RankRecord& record : records) merge_record(record, manifest, tensors);
  for (auto& [name, tensor] : tensors) {
    std::sort(tensor.slices.begin(), tensor.slices.end(),
              [](const StoredSlice& a, const StoredSlice& b) { return a.offset < b.offset; });
    manifest.tensors.push_back(std::move(tensor));
  }

  std::vector<SideFile> sides{{"config.json", model_config_json(config, info.dtype)}};
  if (!config.generation_eos.empty() && !holds_generation_config(side_files)) {
    sides.push_back({kGenerationConfig, generation_config_json(config)});
  }
  sides.insert(sides.end(), side_files.begin(), side_files.end());
  for (const SideFile& side : sides) {
    temporary_->write_file(side.name, side.content);
    manifest.files.push_back({side.name, side.content.size(),
                              Checksum::of(side.content.data(), side.content.size()),
                              /*rank_file=*/false});
  }

  const std::string text = manifest_text(manifest);
  try {
    parse_manifest(text, "manifest");  // what was gathered must cover every tensor once
  } catch (const Error& error) {
    throw bug(std::string("a checkpoint to save is not whole: ") + error.what());
  }
  sync_directory(temporary_->path());
  write_file_atomically(temporary_->path() / kManifestName, text, ExitCode::kResources);
  if (replaces_) {
    temporary_->commit(target_);
  } else {
    temporary_->commit_new(target_);
  }
  return target_;
}

fs::path save_checkpoint(const fs::path& folder, const CheckpointInfo& info,
                         const model::ModelConfig& config, std::span<const TensorSlice> slices,
                         std::span<const SideFile> side_files) {
  CheckpointWriter writer(folder, info.step);
  const RankRecord record = write_rank(writer.temporary(), 0, slices);
  return writer.commit(info, config, {&record, 1}, side_files);
}

std::vector<TensorSlice> slices_of(const model::Parameters& parameters) {
  std::vector<TensorSlice> slices;
  for (const model::Parameter& parameter : parameters.all()) {
    slices.push_back({parameter.spec.name, parameter.spec.shape, 0, parameter.value});
  }
  std::ranges::copy(bias_slices(parameters), std::back_inserter(slices));
  return slices;
}

std::vector<TensorSlice> bias_slices(const model::Parameters& parameters) {
  std::vector<TensorSlice> slices;
  const auto buffers = model::buffer_specs(parameters.config());
  for (size_t layer = 0; layer < buffers.size(); ++layer) {
    slices.push_back({buffers[layer].name, buffers[layer].shape, 0,
                      parameters.balancing_biases().slice_rows(static_cast<int64_t>(layer), 1)});
  }
  return slices;
}

}  // namespace athanor::checkpoint
