#include "checkpoint/model_transfer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "base/new_directories.h"
#include "checkpoint/temporary_directory.h"

namespace athanor::checkpoint {
namespace {

constexpr std::array<std::pair<std::string_view, uint64_t>, 7> kUnits{{{"", 1},
                                                                       {"KB", 1'000},
                                                                       {"MB", 1'000'000},
                                                                       {"GB", 1'000'000'000},
                                                                       {"KiB", 1 << 10},
                                                                       {"MiB", 1 << 20},
                                                                       {"GiB", 1 << 30}}};

}  // namespace

DType export_opened(const OpenedModel& model, const fs::path& directory,
                    const TransferOptions& options) {
  std::error_code ignored;
  if (fs::equivalent(model.directory, directory, ignored)) {
    throw usage_error(directory.string() + " is the model that is read; name another directory");
  }
  const OpenedWeights weights(model);
  ExportOptions how;
  how.layout = options.layout;
  how.shard_bytes = options.shard_bytes;
  how.dtype = options.dtype          ? *options.dtype
              : weights.checkpoint() ? DType::kBF16
                                     : common_dtype(weights.source(), model.config);
  export_model(directory, model.config, weights.source(), weights.side_files(), how);
  return how.dtype;
}

DType import_opened(const OpenedModel& model, const fs::path& directory) {
  const OpenedWeights weights(model);
  const fs::path target = absolute_target(directory);
  const fs::file_status there = fs::symlink_status(target);
  if (fs::exists(there) && !(fs::is_directory(there) && fs::is_empty(target))) {
    throw usage_error(directory.string() +
                      " exists, and an import replaces nothing; name another directory");
  }
  const DType dtype = common_dtype(weights.source(), model.config);
  const std::vector<ModelTensor> tensors = model_tensors(model.config);
  std::vector<TensorLayout> layout;
  for (const auto& [spec, balancing] : tensors) {
    layout.push_back({spec.name, balancing ? DType::kF32 : dtype, spec.shape});
  }
  const NewDirectories parents(target.parent_path());
  CheckpointWriter writer(target, temporary_beside(target), 0);
  const RankRecord record =
      write_rank(writer.temporary(), 0, layout, [&](size_t i, const auto& write) {
        stream(weights.source(), tensors[i].spec, 0, tensors[i].spec.numel(), layout[i].dtype,
               [&](const Tensor& piece) { write(piece.data(), piece.bytes()); });
      });
  CheckpointInfo info;
  info.dtype = dtype;
  writer.commit(info, model.config, {&record, 1}, weights.side_files());
  return dtype;
}

uint64_t parse_shard_size(std::string_view text) {
  uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(rest - text.data()));
  for (const auto& [name, bytes] : kUnits) {
    if (error != std::errc() || unit != name || number == 0) continue;
    if (number > std::numeric_limits<uint64_t>::max() / 2 / bytes) break;
    return number * bytes;
  }
  throw usage_error(
      fmt::format("'{}' is no size of a shard; 5GB, 300MB, 2GiB or bytes are wanted", text));
}

}  // namespace athanor::checkpoint
