#include "train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace athanor::train {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

/// What TFRecord stores, so that a CRC of data that holds CRCs stays meaningful.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <class T>
void put(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

// Protobuf: a field is its number · 8 + wire type, then the value (tensorflow/core/util/event.proto, summary.proto).
void put_double(std::string& out, uint32_t field, double value) {
  put_varint(out, field * 8 + 1);
  put(out, value);
}
void put_integer(std::string& out, uint32_t field, int64_t value) {
  put_varint(out, field * 8);
  put_varint(out, static_cast<uint64_t>(value));
}
void put_bytes(std::string& out, uint32_t field, std::string_view value) {
  put_varint(out, field * 8 + 2);
  put_varint(out, value.size());
  out += value;
}
void put_float(std::string& out, uint32_t field, float value) {
  put_varint(out, field * 8 + 5);
  put(out, value);
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  uint32_t crc = 0xffffffffu;
  for (const char c : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const fs::path& folder) {
  make_directories(folder);
  path_ = folder / ("events.out.tfevents." + std::to_string(static_cast<int64_t>(now())) + "." +
                    host_name() + "." + std::to_string(getpid()));
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_.valid()) throw system_error(errno, "write", path_.string(), ExitCode::kUsage);
  std::string event;
  put_double(event, 1, now());
  put_bytes(event, 3, "brain.Event:2");
  append(event);
}

void TensorBoardWriter::write(int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_float(value, 2, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string event;
  put_double(event, 1, now());
  put_integer(event, 2, step);
  put_bytes(event, 5, summary);
  append(event);
}

void TensorBoardWriter::append(const std::string& event) {
  std::string length;
  put(length, static_cast<uint64_t>(event.size()));
  std::string record = length;
  put(record, masked(crc32c(length)));
  record += event;
  put(record, masked(crc32c(event)));
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t n = ::write(file_.get(), record.data() + done, record.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw system_error(errno, "write", path_.string(), ExitCode::kUsage);
    done += static_cast<size_t>(n);
  }
}

}  // namespace athanor::train
