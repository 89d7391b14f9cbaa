// Packed shards: reading. Every byte read has been checked before it is used. Format:
// docs/formats-shards.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/tokenizer.h"

namespace athanor::data {

enum class Split : uint8_t { kTrain, kHeldOut };

struct ShardEntry {
  std::string file;     ///< "shard-00000.bin", "heldout-00000.bin"
  uint64_t tokens = 0;  ///< special ones included
  uint64_t documents = 0;
  uint64_t text_bytes = 0;  ///< UTF-8 bytes of the documents
  uint64_t file_bytes = 0;
  std::string checksum;  ///< of its frame, which holds those of all other parts
};

/// A whole file of a pack that is no shard: the tokenizer's files, heldout.jsonl.
struct SideFile {
  std::string file;
  uint64_t file_bytes = 0;
  std::string checksum;
};

/// What index.json says: everything about a pack but the tokens.
struct PackIndex {
  std::string tokenizer;  ///< Tokenizer::identity()
  std::string tokenizer_kind;
  int32_t vocab_size = 0;
  bool bos = false;
  bool eos = false;
  std::vector<ShardEntry> train;
  std::vector<ShardEntry> held_out;
  std::vector<SideFile> files;

  const std::vector<ShardEntry>& shards(Split split) const {
    return split == Split::kTrain ? train : held_out;
  }
  uint64_t tokens(Split split) const;
  uint64_t documents(Split split) const;
  uint64_t text_bytes(Split split) const;
};

/// True when `path` is a pack: a folder with our index.json, or that file.
bool is_pack(const fs::path& path);
/// Reads and checks index.json alone. data_error when it is damaged or of another version.
PackIndex read_pack_index(const fs::path& pack);
/// The index as JSON text, for `data inspect --json`.
std::string to_json(const PackIndex& index);

/// A stream of tokens with document boundaries: what the loader cuts into samples.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual const std::string& name() const = 0;  ///< for messages: the folder
  virtual uint64_t tokens() const = 0;
  virtual uint64_t documents() const = 0;
  /// The document that holds token `position`.
  virtual uint64_t document_at(uint64_t position) const = 0;
  /// Position of a document's first token; of the stream's end for document == documents().
  virtual uint64_t document_begin(uint64_t document) const = 0;
  /// UTF-8 bytes of a document's text.
  virtual uint64_t document_bytes(uint64_t document) const = 0;
  /// Copies tokens [position, position + ids.size()). May be called from many threads; allocates
  /// nothing.
  virtual void read(uint64_t position, std::span<int32_t> ids) const = 0;
};

/// One split of a pack. Opening checks the index, every header and every document boundary, and
/// that no file is cut; read() checks each block of tokens each time before it hands out any of it:
/// data_error names shard and block.
std::unique_ptr<TokenSource> open_pack(const fs::path& pack, Split split = Split::kTrain);

/// Reads and checks every byte of every file; data_error names the first damaged file and block.
void verify_pack(const fs::path& pack);

/// data_error, naming both, unless the pack was made with this tokenizer.
void require_tokenizer(const PackIndex& index, const Tokenizer& tokenizer, const fs::path& pack);

/// Tokens in memory, as a source (tests, benchmarks). `document_ends` ascend; the last is
/// ids.size().
std::unique_ptr<TokenSource> make_token_source(std::vector<int32_t> ids,
                                               std::vector<uint64_t> document_ends);

}  // namespace athanor::data
