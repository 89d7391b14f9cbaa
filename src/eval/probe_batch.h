// The batch that `athanor probe` reads: its tokens, targets and documents, validated.
#pragma once

#include <cstdint>
#include <vector>

#include "base/files.h"

namespace athanor::eval {

/// The real tokens of a batch of B rows of T, document after document.
struct ProbeBatch {
  int64_t rows = 0;              ///< B
  int64_t length = 0;            ///< T
  std::vector<int32_t> ids;      ///< real tokens alone
  std::vector<int32_t> targets;  ///< one a token, −1: none; empty when the batch names none
  std::vector<int64_t> begins;   ///< documents: S + 1 places in `ids`, from 0
  std::vector<int64_t> places;   ///< where each token stands in the B·T of the batch
  int64_t target_count = 0;

  int64_t longest() const;  ///< tokens of the longest document
};

/// Reads a safetensors file with `input_ids` [B, T], and optionally `labels` or `targets` [B, T] (targets win; labels
/// are shifted by one inside each document; −100: none), `cu_seqlens` [S+1] (boundaries of documents in the B·T tokens,
/// every row's start among them) or `attention_mask` [B, T] (left padding: 0s, then 1s). Other tensors are ignored.
/// Throws kData for a malformed batch and kUsage for an id outside [0, vocab), naming the place.
ProbeBatch read_probe_batch(const fs::path& path, int64_t vocab);

}  // namespace athanor::eval
