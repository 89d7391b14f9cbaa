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

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("step-{:08d}", step); }

CheckpointWriter::CheckpointWriter(fs::path folder, int64_t step)
    : folder_(std::move(folder)),
      step_(step),
      temporary_(
          std::make_unique<TemporaryDirectory>(folder_ / (checkpoint_name(step_) + ".tmp"))) {}

CheckpointWriter::~CheckpointWriter() = default;

const fs::path& CheckpointWriter::temporary() const { return temporary_->path(); }

RankRecord write_rank(const fs::path& temporary, int rank, std::span<const TensorSlice> slices) {
  const std::string name = fmt::format("rank-{:05d}.safetensors", rank);
  std::vector<TensorLayout> layout;
  json stored = json::array();
  for (const TensorSlice& slice : slices) {
    const int64_t length = slice.data.numel();
    require(slice.data.contiguous() && length > 0 && slice.begin >= 0 &&
                slice.begin + length <= numel_of(slice.global_shape),
            "a slice to save lies outside its tensor");
    layout.push_back({slice.name, slice.data.dtype(), {length}});
    stored.push_back({{"name", slice.name},
                      {"dtype", name_of(slice.data.dtype())},
                      {"shape", slice.global_shape},
                      {"offset", slice.begin},
                      {"length", length},
                      {"checksum", Checksum::of(slice.data.data(), slice.data.bytes())}});
  }
  const std::string header = safetensors_header(layout);
  SafetensorsWriter writer(temporary / name, layout, ExitCode::kResources);
  uint64_t bytes = header.size();
  for (const TensorSlice& slice : slices) {
    writer.write(slice.data);
    bytes += slice.data.bytes();
  }
  writer.close();
  return json{{"name", name},
              {"bytes", bytes},
              {"checksum", Checksum::of(header.data(), header.size())},
              {"slices", std::move(stored)}}
      .dump();
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

  std::vector<SideFile> sides{{"config.json", model_config_json(config, DType::kF32)}};
  if (!config.generation_eos.empty()) {
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
  const fs::path target = folder_ / checkpoint_name(step_);
  temporary_->commit(target);
  return target;
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
