// Reading the protobuf wire format (https://protobuf.dev/programming-guides/encoding): just fields,
// no schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace athanor::data {

/// One field of a message. Which member counts depends on how the field was encoded.
struct ProtoField {
  uint32_t number = 0;
  enum class Wire : uint8_t { kVarint, kFixed64, kBytes, kFixed32 } wire = Wire::kVarint;
  uint64_t value = 0;      // varint and fixed
  std::string_view bytes;  // kBytes
};

/// A walk over a message's fields. `bad()` tells, after the last field, that the message is
/// damaged.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view message) : rest_(message) {}
  std::optional<ProtoField> next();
  bool bad() const { return bad_; }

 private:
  std::optional<uint64_t> varint();
  std::optional<uint64_t> fixed(size_t bytes);
  std::string_view rest_;
  bool bad_ = false;
};

}  // namespace athanor::data
