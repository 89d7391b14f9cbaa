// The safetensors file format: an 8-byte header length, a JSON header, then the tensors' bytes
// without holes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/tensor.h"

namespace athanor::checkpoint {

/// One tensor as a header describes it.
struct TensorEntry {
  std::string name;
  std::string dtype;  ///< as written: "BF16"
  std::optional<DType>
      type;  ///< empty for a dtype that this program does not compute with (F16, F8_E4M3, …)
  std::vector<int64_t> shape;  ///< empty for a scalar
  uint64_t begin = 0;          ///< first byte, counted from the start of the file
  uint64_t bytes = 0;

  int64_t numel() const;
  /// "BF16[64, 32]" for messages.
  std::string describe() const;
};

/// What the first bytes of a safetensors file say.
struct SafetensorsHeader {
  uint64_t bytes = 0;                ///< the length field, the JSON and its padding
  std::vector<TensorEntry> entries;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses and validates the header that starts `prefix` of a file of `file_bytes` bytes: its
/// length, the JSON, names that occur once, dtypes, shapes and offsets; the tensors must cover the
/// rest of the file without overlap or hole. Throws kData naming `where` and the tensor. `prefix`
/// must hold the whole header.
SafetensorsHeader parse_safetensors_header(std::string_view prefix, uint64_t file_bytes,
                                           const std::string& where);

/// What the header of a file must be: its length (with the length field) and the checksum of its
/// bytes.
struct HeaderProof {
  uint64_t bytes = 0;
  std::string checksum;
};

/// A safetensors file open for reading. The header is read and validated when it is opened, tensors
/// when they are asked for, so that any part of a large file costs only its own bytes. Reads are
/// thread-safe.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);
  /// The same; kData unless the header's bytes are the ones that `proof` names.
  SafetensorsFile(const fs::path& path, const HeaderProof& proof);

  const fs::path& path() const { return path_; }
  uint64_t header_bytes() const { return header_.bytes; }
  /// In the order of their bytes in the file.
  std::span<const TensorEntry> entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  /// The tensor of that name; null when there is none.
  const TensorEntry* find(std::string_view name) const;
  /// As find; kData when there is none.
  const TensorEntry& at(std::string_view name) const;

  /// Reads `bytes` bytes from `offset` of the file. Throws kData when the file is shorter by now.
  void read_bytes(uint64_t offset, void* into, size_t bytes) const;
  /// Reads elements [begin, begin + into.numel()) of the flattened tensor into `into` (contiguous),
  /// converting between F32, BF16 and F64, and between I64, I32 and U8 where every value fits.
  /// Throws kData naming file and tensor.
  void read(const TensorEntry& entry, int64_t begin, const Tensor& into) const;

 private:
  void open();
  void parse(std::string_view header);

  fs::path path_;
  FileDescriptor file_;
  uint64_t file_bytes_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

/// Converts `count` elements from stored bytes to `into`'s dtype, as SafetensorsFile::read does.
/// False when a value or the pair of dtypes does not fit.
bool convert_elements(const void* from, DType from_type, void* into, DType into_type,
                      int64_t count);

/// A tensor about to be written.
struct TensorLayout {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
};

/// The header of a file that holds `layout` in that order: deterministic, padded with spaces to a
/// multiple of 8 bytes, metadata {"format": "pt"}. Includes the length field.
std::string safetensors_header(std::span<const TensorLayout> layout);

/// Writes a safetensors file from front to back: the layout first, then every tensor's bytes in the
/// layout's order, in as many pieces as is convenient. Destroyed before close(), it removes the
/// file.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const fs::path& path, std::vector<TensorLayout> layout,
                    ExitCode otherwise = ExitCode::kUsage);
  void write(const void* data, size_t bytes);
  void write(const Tensor& contiguous) { write(contiguous.data(), contiguous.bytes()); }
  /// Durable; bug(70) unless exactly the bytes of the layout were written.
  void close();

 private:
  FileWriter file_;
  uint64_t expected_ = 0;
};

/// A tensor to write under a name, in the shape that the file shall state; its product is
/// data.numel().
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  Tensor data;
};

/// A file written in whole beside its place, which commit() gives it, replacing an older one.
/// Destroyed before that, it is removed.
class StagedSafetensors {
 public:
  StagedSafetensors(const fs::path& path, std::span<const NamedTensor> tensors,
                    ExitCode otherwise = ExitCode::kUsage);
  ~StagedSafetensors();
  StagedSafetensors(const StagedSafetensors&) = delete;
  StagedSafetensors& operator=(const StagedSafetensors&) = delete;
  void commit();

 private:
  fs::path path_;
  fs::path temporary_;
  ExitCode otherwise_;
  bool committed_ = false;
};

}  // namespace athanor::checkpoint
