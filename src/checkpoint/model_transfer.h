// Models in and out: from any form that MODEL has to a model directory of either layout, or to a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "checkpoint/open_model.h"

namespace athanor::checkpoint {

struct TransferOptions {
  Layout layout = Layout::kNative;
  /// None: as a model directory has it stored; BF16 for a checkpoint, which mostly holds fp32 masters.
  std::optional<DType> dtype;
  uint64_t shard_bytes = ExportOptions().shard_bytes;
};

/// `checkpoint export`: writes `model` as a model directory (export_model) with its tokenizer's files. Returns the dtype that it
/// took. kUsage when `directory` is where the model is read from.
DType export_opened(const OpenedModel& model, const fs::path& directory,
                    const TransferOptions& options);

/// `checkpoint import`: writes `model` as the checkpoint `directory`: step 0, weights in the dtype that holds them unchanged
/// (common_dtype), no optimizer state, the model's side files. It appears complete or not at all; memory is that of a piece of a
/// tensor. kUsage when `directory` exists and is not an empty folder: a checkpoint is never replaced. Returns the dtype.
DType import_opened(const OpenedModel& model, const fs::path& directory);

/// "5GB", "300MB", "2GiB" or a plain number of bytes, as Hugging Face reads shard sizes. kUsage for anything else and for 0.
uint64_t parse_shard_size(std::string_view text);

}  // namespace athanor::checkpoint
