#include "checkpoint/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "checkpoint/json_reading.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthField = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the reference implementation

// Every dtype of the format with its size in bits.
constexpr std::array<std::pair<std::string_view, int>, 20> kDTypes{
    {{"BOOL", 8},    {"U8", 8},   {"I8", 8},      {"F8_E5M2", 8}, {"F8_E4M3", 8},
     {"F8_E8M0", 8}, {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"I16", 16},
     {"U16", 16},    {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},
     {"F32", 32},    {"C64", 64}, {"F64", 64},    {"U64", 64},    {"I64", 64}}};

uint64_t length_field(std::string_view prefix) {
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(prefix[i]);
  return length;
}

int bits_of(std::string_view dtype) {
  for (const auto& [name, bits] : kDTypes) {
    if (name == dtype) return bits;
  }
  return 0;
}

std::optional<DType> type_of(std::string_view dtype) {
  if (dtype == "BOOL") return DType::kU8;  // a byte that is 0 or 1
  return dtype_named(dtype);
}

// Bytes of a tensor; nothing when the product overflows.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, int bits) {
  uint64_t elements = 1;
  // A zero makes the whole product zero, whatever stands beside it.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t n : shape) {
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(n), &elements)) return std::nullopt;
  }
  uint64_t total = 0;
  if (elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
      __builtin_mul_overflow(elements, static_cast<uint64_t>(bits), &total) || total % 8 != 0) {
    return std::nullopt;
  }
  return total / 8;
}

TensorEntry parse_entry(const std::string& name, const json& value, uint64_t header_bytes,
                        uint64_t data_bytes, const std::string& file) {
  const std::string where = fmt::format("{}: tensor {}", file, printable(name));
  TensorEntry entry;
  entry.name = name;
  entry.dtype = string_member(value, "dtype", where);
  const int bits = bits_of(entry.dtype);
  if (bits == 0) {
    throw data_error(fmt::format("{}: unknown dtype \"{}\"", where, printable(entry.dtype)));
  }
  entry.type = type_of(entry.dtype);
  entry.shape = integers_member(value, "shape", where);
  for (const int64_t n : entry.shape) {
    if (n < 0) throw data_error(fmt::format("{}: negative size {} in its shape", where, n));
  }
  const std::vector<int64_t> offsets = integers_member(value, "data_offsets", where);
  if (value.size() != 3) throw data_error(fmt::format("{}: unknown keys in its header", where));
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] ||
      static_cast<uint64_t>(offsets[1]) > data_bytes) {
    throw data_error(
        fmt::format("{}: data_offsets [{}] lie outside the file's {} data bytes; the "
                    "file is cut short or its header is wrong",
                    where, fmt::join(offsets, ", "), data_bytes));
  }
  const std::optional<uint64_t> bytes = bytes_of(entry.shape, bits);
  entry.bytes = static_cast<uint64_t>(offsets[1] - offsets[0]);
  if (!bytes || *bytes != entry.bytes) {
    throw data_error(fmt::format("{}: {} does not take the {} bytes that data_offsets give it",
                                 where, entry.describe(), entry.bytes));
  }
  entry.begin = header_bytes + static_cast<uint64_t>(offsets[0]);
  return entry;
}

void require_no_gaps(const SafetensorsHeader& header, uint64_t file_bytes,
                     const std::string& where) {
  uint64_t end = header.bytes;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry& entry : header.entries) {
    if (entry.begin != end) {
      throw data_error(
          fmt::format("{}: tensor {} {} {}", where, printable(entry.name),
                      entry.begin < end ? "overlaps" : "leaves a hole after",
                      previous == nullptr ? "the header" : "tensor " + printable(previous->name)));
    }
    end = entry.begin + entry.bytes;
    previous = &entry;
  }
  if (end != file_bytes) {
    throw data_error(fmt::format("{}: {} bytes after the last tensor that its header does not name",
                                 where, file_bytes - end));
  }
}

template <class From, class Into>
bool convert(const void* from, void* into, int64_t count) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<Into*>(into);
  constexpr bool kReal = !std::is_integral_v<From>;
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kReal) {
      if constexpr (std::is_same_v<From, bfloat16>) {
        target[i] = static_cast<Into>(static_cast<float>(source[i]));
      } else if constexpr (std::is_same_v<Into, bfloat16>) {
        target[i] = bfloat16(static_cast<float>(source[i]));
      } else {
        target[i] = static_cast<Into>(source[i]);
      }
    } else {
      target[i] = static_cast<Into>(source[i]);
      if (static_cast<int64_t>(target[i]) != static_cast<int64_t>(source[i])) return false;
    }
  }
  return true;
}

template <class From>
bool convert_from(const void* from, void* into, DType type, int64_t count) {
  if constexpr (std::is_integral_v<From>) {
    switch (type) {
      case DType::kI64:
        return convert<From, int64_t>(from, into, count);
      case DType::kI32:
        return convert<From, int32_t>(from, into, count);
      case DType::kU8:
        return convert<From, uint8_t>(from, into, count);
      default:
        return false;
    }
  } else {
    switch (type) {
      case DType::kF64:
        return convert<From, double>(from, into, count);
      case DType::kF32:
        return convert<From, float>(from, into, count);
      case DType::kBF16:
        return convert<From, bfloat16>(from, into, count);
      default:
        return false;
    }
  }
}

uint64_t layout_bytes(const TensorLayout& tensor) {
  const auto bytes = bytes_of(tensor.shape, static_cast<int>(size_of(tensor.dtype)) * 8);
  require(bytes.has_value(), "a tensor to write is larger than any file");
  return *bytes;
}

}  // namespace

int64_t TensorEntry::numel() const { return numel_of(shape); }

std::string TensorEntry::describe() const {
  return fmt::format("{}[{}]", dtype, fmt::join(shape, ", "));
}

SafetensorsHeader parse_safetensors_header(std::string_view prefix, uint64_t file_bytes,
                                           const std::string& where) {
  if (prefix.size() < kLengthField) {
    throw data_error(fmt::format("{}: {} bytes are too few for a safetensors file; it is cut short",
                                 where, prefix.size()));
  }
  const uint64_t length = length_field(prefix);
  if (length > kLongestHeader && length <= file_bytes - kLengthField) {
    throw data_error(fmt::format("{}: a header of {} bytes; the format allows {}; nothing is read",
                                 where, length, kLongestHeader));
  }
  if (length > file_bytes - kLengthField) {
    throw data_error(fmt::format(
        "{}: its header claims {} bytes in a file of {}; the file is cut short or is no "
        "safetensors file",
        where, length, file_bytes));
  }
  if (prefix.size() < kLengthField + length) {
    throw data_error(where + ": its header is cut short");
  }
  SafetensorsHeader header;
  header.bytes = kLengthField + length;
  const std::string_view text = prefix.substr(kLengthField, length);
  if (text.empty() || text.front() != '{') {
    throw data_error(where + ": no safetensors header at byte 8");
  }
  const json root = parse_json(text, where + ": header");
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) {
        throw data_error(where + ": header: key \"__metadata__\" must be an object of strings");
      }
      for (const auto& [key, entry] : value.items()) {
        if (!entry.is_string()) {
          throw data_error(where + ": header: key \"__metadata__\" must be an object of strings");
        }
        header.metadata[key] = entry.get<std::string>();
      }
      continue;
    }
    header.entries.push_back(
        parse_entry(name, value, header.bytes, file_bytes - header.bytes, where));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const TensorEntry& a, const TensorEntry& b) {
              return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
            });
  require_no_gaps(header, file_bytes, where);
  return header;
}

SafetensorsFile::SafetensorsFile(const fs::path& path) : path_(path) {
  open();
  std::string prefix(std::min(file_bytes_, kLengthField), '\0');
  read_bytes(0, prefix.data(), prefix.size());
  if (prefix.size() == kLengthField) {
    const uint64_t length = length_field(prefix);
    if (length <= kLongestHeader && length <= file_bytes_ - kLengthField) {
      prefix.resize(kLengthField + length);
      read_bytes(kLengthField, prefix.data() + kLengthField, length);
    }  // else the parser refuses the length
  }
  parse(prefix);
}

SafetensorsFile::SafetensorsFile(const fs::path& path, const HeaderProof& proof) : path_(path) {
  open();
  std::string header(std::min(proof.bytes, file_bytes_), '\0');
  read_bytes(0, header.data(), header.size());
  if (Checksum::of(header.data(), header.size()) != proof.checksum) {
    throw data_error(fmt::format("{}: its header (bytes 0 to {}) does not match its checksum",
                                 path.string(), proof.bytes));
  }
  parse(header);
}

void SafetensorsFile::open() {
  // O_NONBLOCK: a FIFO of that name must not hang the program.
  const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw system_error(errno, "read", path_.string(), ExitCode::kData);
  file_ = FileDescriptor(fd);
  struct stat info{};
  if (fstat(fd, &info) != 0) throw system_error(errno, "read", path_.string(), ExitCode::kData);
  if (!S_ISREG(info.st_mode)) throw data_error(path_.string() + ": not a regular file");
  file_bytes_ = static_cast<uint64_t>(info.st_size);
}

void SafetensorsFile::parse(std::string_view header) {
  header_ = parse_safetensors_header(header, file_bytes_, path_.string());
  for (size_t i = 0; i < header_.entries.size(); ++i) by_name_[header_.entries[i].name] = i;
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &header_.entries[found->second];
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  const TensorEntry* entry = find(name);
  if (entry == nullptr) {
    throw data_error(fmt::format("{}: tensor {} is missing", path_.string(), printable(name)));
  }
  return *entry;
}

void SafetensorsFile::read_bytes(uint64_t offset, void* into, size_t bytes) const {
  auto* target = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t n = ::pread(file_.get(), target, std::min<size_t>(bytes, size_t{1} << 30),
                              static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      throw system_error(errno, "read", path_.string(), ExitCode::kData);
    }
    if (n == 0) throw data_error(path_.string() + ": the file ended while it was read");
    target += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void SafetensorsFile::read(const TensorEntry& entry, int64_t begin, const Tensor& into) const {
  require(begin >= 0 && begin + into.numel() <= entry.numel() && into.contiguous(),
          "a read past the end of a stored tensor");
  const auto refuse = [&] {
    return data_error(fmt::format("{}: tensor {} is {}, which cannot be read as {}", path_.string(),
                                  printable(entry.name), entry.describe(), name_of(into.dtype())));
  };
  if (!entry.type) throw refuse();
  const size_t size = size_of(*entry.type);
  uint64_t offset = entry.begin + static_cast<uint64_t>(begin) * size;
  if (*entry.type == into.dtype()) return read_bytes(offset, into.data(), into.bytes());
  constexpr int64_t kPiece = 16384;  // elements converted at a time
  std::array<std::byte, kPiece * 8> buffer;
  for (int64_t done = 0; done < into.numel();) {
    const int64_t count = std::min(kPiece, into.numel() - done);
    read_bytes(offset, buffer.data(), static_cast<size_t>(count) * size);
    std::byte* target = into.data() + static_cast<size_t>(done) * size_of(into.dtype());
    if (!convert_elements(buffer.data(), *entry.type, target, into.dtype(), count)) throw refuse();
    offset += static_cast<uint64_t>(count) * size;
    done += count;
  }
}

bool convert_elements(const void* from, DType from_type, void* into, DType into_type,
                      int64_t count) {
  switch (from_type) {
    case DType::kF64:
      return convert_from<double>(from, into, into_type, count);
    case DType::kF32:
      return convert_from<float>(from, into, into_type, count);
    case DType::kBF16:
      return convert_from<bfloat16>(from, into, into_type, count);
    case DType::kI64:
      return convert_from<int64_t>(from, into, into_type, count);
    case DType::kI32:
      return convert_from<int32_t>(from, into, into_type, count);
    case DType::kU8:
      return convert_from<uint8_t>(from, into, into_type, count);
  }
  return false;
}

std::string safetensors_header(std::span<const TensorLayout> layout) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const TensorLayout& tensor : layout) {
    require(names.insert(tensor.name).second, "two tensors of one name in a safetensors file");
    const uint64_t end = offset + layout_bytes(tensor);
    text += fmt::format(R"(,{}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                        json(tensor.name).dump(), name_of(tensor.dtype),
                        fmt::join(tensor.shape, ","), offset, end);
    offset = end;
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string header(kLengthField, '\0');
  for (size_t i = 0; i < kLengthField; ++i) header[i] = static_cast<char>(text.size() >> (8 * i));
  return header + text;
}

SafetensorsWriter::SafetensorsWriter(const fs::path& path, std::vector<TensorLayout> layout,
                                     ExitCode otherwise)
    : file_(path, otherwise) {
  const std::string header = safetensors_header(layout);
  expected_ = header.size();
  for (const TensorLayout& tensor : layout) expected_ += layout_bytes(tensor);
  file_.write(header.data(), header.size());
}

void SafetensorsWriter::write(const void* data, size_t bytes) { file_.write(data, bytes); }

void SafetensorsWriter::close() {
  require(file_.offset() == expected_, "a safetensors file was not written as laid out");
  file_.close();
}

StagedSafetensors::StagedSafetensors(const fs::path& path, std::span<const NamedTensor> tensors,
                                     ExitCode otherwise)
    : path_(path), temporary_(path), otherwise_(otherwise) {
  std::vector<TensorLayout> layout;
  for (const NamedTensor& tensor : tensors) {
    require(tensor.data.contiguous(), "only contiguous tensors can be written");
    layout.push_back({tensor.name, tensor.data.dtype(), tensor.shape});
    require(layout_bytes(layout.back()) == tensor.data.bytes(),
            "a tensor's stored shape does not fit its data");
  }
  temporary_ += ".tmp" + std::to_string(getpid());
  SafetensorsWriter writer(temporary_, std::move(layout), otherwise);
  for (const NamedTensor& tensor : tensors) writer.write(tensor.data);
  writer.close();
}

StagedSafetensors::~StagedSafetensors() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void StagedSafetensors::commit() {
  rename_file(temporary_, path_, otherwise_);
  committed_ = true;
}

}  // namespace athanor::checkpoint
