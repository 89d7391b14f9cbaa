// The bytes of a shard file (docs/formats-shards.md): written by pack.cpp, read by shards.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/checksum.h"

namespace athanor::data {

/// Tokens under one checksum. A sample of some hundred tokens costs the reading of one or two
/// blocks, and the checksums 0.2 % of the file.
constexpr uint64_t kBlockTokens = 4096;
constexpr uint32_t kShardVersion = 1;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kTrailerBytes = 64;
constexpr size_t kDigestBytes = sizeof(Digest);

/// XXH3-128 of some bytes.
Digest digest_of(std::string_view bytes);

/// A shard's first and last 64 bytes, as values. Between them: the tokens, then the tables.
struct ShardFrame {
  uint32_t token_bytes = 2;  ///< 2 or 4 bytes a token
  int32_t vocab_size = 0;
  std::string tokenizer;  ///< 32 hex digits
  uint64_t tokens = 0;
  uint64_t documents = 0;
  uint64_t text_bytes = 0;
  Digest tables{};  ///< of the tables
  Digest frame{};   ///< of the header and the trailer up to here: what index.json lists

  uint64_t blocks() const { return (tokens + kBlockTokens - 1) / kBlockTokens; }
  /// Per document the position behind its last token and its bytes of text; per block its digest.
  uint64_t table_bytes() const { return documents * 16 + blocks() * kDigestBytes; }
  uint64_t tables_begin() const { return kHeaderBytes + tokens * token_bytes; }
  uint64_t file_bytes() const { return tables_begin() + table_bytes() + kTrailerBytes; }
};

/// The header: 64 bytes that are known before the first token.
std::string encode_header(const ShardFrame& frame);
/// The trailer; sets frame.frame.
std::string encode_trailer(ShardFrame& frame);
/// Reads and checks both. data_error "`name`: what".
ShardFrame decode_frame(std::string_view header, std::string_view trailer, const std::string& name);

/// Little-endian numbers in a string of bytes.
void append_u64(std::string& out, uint64_t value);
uint64_t read_u64(std::string_view bytes, size_t offset);

/// Appends ids as tokens of `token_bytes` bytes.
void append_tokens(std::string& out, std::span<const int32_t> ids, uint32_t token_bytes);
/// The reverse; `bytes` holds ids.size() tokens. Returns false when one is not in [0, vocab_size).
bool decode_tokens(std::string_view bytes, uint32_t token_bytes, int32_t vocab_size,
                   std::span<int32_t> ids);

}  // namespace athanor::data
