#include "data/shard_format.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"

namespace athanor::data {
namespace {

constexpr std::string_view kMagic = "ATHSHARD";
constexpr std::string_view kEndMagic = "DRAHSHTA";

void append_u32(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(value >> (8 * i));
}

uint32_t read_u32(std::string_view bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return value;
}

}  // namespace

Digest digest_of(std::string_view bytes) { return Checksum::digest_of(bytes.data(), bytes.size()); }

void append_u64(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out += static_cast<char>(value >> (8 * i));
}

uint64_t read_u64(std::string_view bytes, size_t offset) {
  return read_u32(bytes, offset) | uint64_t{read_u32(bytes, offset + 4)} << 32;
}

std::string encode_header(const ShardFrame& frame) {
  std::string bytes(kMagic);
  append_u32(bytes, kShardVersion);
  append_u32(bytes, frame.token_bytes);
  append_u32(bytes, static_cast<uint32_t>(frame.vocab_size));
  append_u32(bytes, static_cast<uint32_t>(kBlockTokens));
  bytes += frame.tokenizer;
  bytes.resize(kHeaderBytes, '\0');
  return bytes;
}

std::string encode_trailer(ShardFrame& frame) {
  std::string bytes;
  append_u64(bytes, frame.tokens);
  append_u64(bytes, frame.documents);
  append_u64(bytes, frame.text_bytes);
  bytes.append(reinterpret_cast<const char*>(frame.tables.data()), kDigestBytes);
  frame.frame = digest_of(encode_header(frame) + bytes);
  bytes.append(reinterpret_cast<const char*>(frame.frame.data()), kDigestBytes);
  bytes += kEndMagic;
  return bytes;
}

ShardFrame decode_frame(std::string_view header, std::string_view trailer,
                        const std::string& name) {
  const auto refuse = [&](const std::string& what) { return data_error(name + ": " + what); };
  require(header.size() == kHeaderBytes && trailer.size() == kTrailerBytes, "a shard's frame");
  if (!header.starts_with(kMagic)) throw refuse("this is no shard of packed tokens");
  if (!trailer.ends_with(kEndMagic)) {
    throw refuse("cut short, or its end is damaged; pack the text again");
  }
  constexpr size_t kDigestAt = kTrailerBytes - 8 - kDigestBytes;
  ShardFrame frame;
  std::memcpy(frame.frame.data(), trailer.data() + kDigestAt, kDigestBytes);
  if (digest_of(std::string(header) + std::string(trailer.substr(0, kDigestAt))) != frame.frame) {
    throw refuse("its header or its end is damaged (checksum); pack the text again");
  }
  const uint32_t version = read_u32(header, 8);
  if (version != kShardVersion) {
    throw refuse(
        fmt::format("shard version {}; this program reads version {}", version, kShardVersion));
  }
  frame.token_bytes = read_u32(header, 12);
  frame.vocab_size = static_cast<int32_t>(read_u32(header, 16));
  const uint32_t block_tokens = read_u32(header, 20);
  frame.tokenizer = header.substr(24, 32);
  frame.tokens = read_u64(trailer, 0);
  frame.documents = read_u64(trailer, 8);
  frame.text_bytes = read_u64(trailer, 16);
  std::memcpy(frame.tables.data(), trailer.data() + 24, kDigestBytes);
  // A good checksum may still be another program's: nothing computed from these may overflow.
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if ((frame.token_bytes != 2 && frame.token_bytes != 4) || block_tokens != kBlockTokens ||
      frame.vocab_size <= 0 || frame.tokens > kMost || frame.documents > kMost) {
    throw refuse("its header says what no shard of this version has");
  }
  return frame;
}

void append_tokens(std::string& out, std::span<const int32_t> ids, uint32_t token_bytes) {
  for (const int32_t id : ids) {
    const auto value = static_cast<uint32_t>(id);
    for (uint32_t i = 0; i < token_bytes; ++i) out += static_cast<char>(value >> (8 * i));
  }
}

bool decode_tokens(std::string_view bytes, uint32_t token_bytes, int32_t vocab_size,
                   std::span<int32_t> ids) {
  bool inside = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    uint32_t value = 0;
    for (uint32_t k = 0; k < token_bytes; ++k) {
      value |= uint32_t{static_cast<unsigned char>(bytes[i * token_bytes + k])} << (8 * k);
    }
    inside &= value < static_cast<uint32_t>(vocab_size);
    ids[i] = static_cast<int32_t>(value);
  }
  return inside;
}

}  // namespace athanor::data
