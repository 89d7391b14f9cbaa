#include "data/proto_wire.h"

namespace athanor::data {

std::optional<uint64_t> ProtoReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(rest_[0]);
    rest_.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> ProtoReader::fixed(size_t bytes) {
  if (rest_.size() < bytes) return std::nullopt;
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  }
  rest_.remove_prefix(bytes);
  return value;
}

std::optional<ProtoField> ProtoReader::next() {
  if (rest_.empty() || bad_) return std::nullopt;
  ProtoField field;
  std::optional<uint64_t> value;
  const std::optional<uint64_t> key = varint();
  if (key && *key >> 3 != 0 && *key >> 3 < (uint64_t{1} << 29)) {
    field.number = static_cast<uint32_t>(*key >> 3);
    switch (*key & 7) {
      case 0:
        field.wire = ProtoField::Wire::kVarint;
        value = varint();
        break;
      case 1:
        field.wire = ProtoField::Wire::kFixed64;
        value = fixed(8);
        break;
      case 2:
        field.wire = ProtoField::Wire::kBytes;
        value = varint();
        if (value && *value <= rest_.size()) {
          field.bytes = rest_.substr(0, *value);
          rest_.remove_prefix(*value);
        } else {
          value.reset();
        }
        break;
      case 5:
        field.wire = ProtoField::Wire::kFixed32;
        value = fixed(4);
        break;
      default:  // groups: long deprecated, not in these files
        break;
    }
  }
  if (!value) {
    bad_ = true;
    return std::nullopt;
  }
  field.value = *value;
  return field;
}

}  // namespace athanor::data
