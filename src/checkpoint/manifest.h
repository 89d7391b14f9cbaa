// manifest.json: what a checkpoint holds and how every byte of it is proved
// (docs/formats-checkpoint.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace athanor::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

/// A run of consecutive elements of a flattened tensor, stored as the 1-D tensor of the same name
/// in a rank file.
struct StoredSlice {
  std::string file;
  int64_t offset = 0;    ///< first element in the flattened global tensor
  int64_t length = 0;    ///< elements
  std::string checksum;  ///< of the slice's bytes
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;       ///< global
  std::vector<StoredSlice> slices;  ///< by offset; together they cover the tensor exactly once
  int64_t numel() const;
};

/// A file of the checkpoint. A rank file's checksum covers its header (length field, JSON,
/// padding), the slices cover the rest; a side file's covers the whole file.
struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  std::string checksum;
  bool rank_file = false;
};

struct Manifest {
  int64_t step = 0;
  int ranks = 1;             ///< world layout: one rank file each
  std::string config;        ///< the run's configuration, as resolved (TOML)
  std::string data_cursor;   ///< JSON text, as the loader gave it
  std::string random_state;  ///< JSON text, as the trainer gave it
  std::string state;         ///< JSON text, whatever else the trainer needs
  std::vector<StoredFile> files;
  std::vector<StoredTensor> tensors;  ///< by name

  /// Null when there is none.
  const StoredTensor* find(std::string_view name) const;
  const StoredFile* find_file(std::string_view name) const;
};

/// The bytes of manifest.json; they end with their own checksum.
std::string manifest_text(const Manifest& manifest);
/// Parses and validates: the checksum of its own bytes, required keys, file names without folders,
/// slices that cover each tensor once and lie in listed files. Throws kData naming `where` and the
/// key or tensor.
Manifest parse_manifest(std::string_view text, const std::string& where);

}  // namespace athanor::checkpoint
