// Packs whose checksums are good and whose content is not: made by another program, or by another version.
#include <algorithm>

#include "base/checksum.h"
#include "data/pack_index.h"
#include "data/shard_format.h"
#include "data/shards.h"
#include "testing.h"

namespace athanor::data {
namespace {

std::vector<int32_t> all_tokens(const TokenSource& source) {
  std::vector<int32_t> ids(source.tokens());
  source.read(0, ids);
  return ids;
}

/// A shard and its index with good checksums, made by a program that lies.
void write_lying_pack(const TemporaryFolder& folder, ShardFrame frame, const std::string& tokens,
                      const std::string& tables) {
  frame.tokenizer = std::string(32, '0');
  frame.tables = digest_of(tables);
  const std::string trailer = encode_trailer(frame);
  const std::string file = encode_header(frame) + tokens + tables + trailer;
  folder.write("shard-00000.bin", file);
  PackIndex index;
  index.tokenizer = frame.tokenizer;
  index.tokenizer_kind = "bytes";
  index.vocab_size = frame.vocab_size;
  index.train = {{"shard-00000.bin", frame.tokens, frame.documents, frame.text_bytes, file.size(),
                  hex_of(frame.frame)}};
  folder.write("index.json", write_pack_index(index));
}

TEST(Shards, LiesWithGoodChecksumsAreRefused) {
  const TemporaryFolder folder;
  const auto tables_of = [](const std::vector<uint64_t>& numbers, const std::string& tokens) {
    std::string tables;
    for (const uint64_t number : numbers) append_u64(tables, number);
    const Digest digest = digest_of(tokens);
    return tables + std::string(digest.begin(), digest.end());
  };
  std::string tokens;
  append_tokens(tokens, std::vector<int32_t>{1, 2, 9, 3}, 2);
  ShardFrame frame{
      .token_bytes = 2, .vocab_size = 10, .tokens = 4, .documents = 2, .text_bytes = 7};
  const auto open = [&] { all_tokens(*open_pack(folder.path())); };
  write_lying_pack(folder, frame, tokens, tables_of({2, 3, 4, 4}, tokens));
  open();  // the honest one is accepted
  write_lying_pack(folder, frame, tokens, tables_of({4, 3, 4, 4}, tokens));
  expect_error(ExitCode::kData, {"document table"}, open);  // not ascending
  write_lying_pack(folder, frame, tokens, tables_of({2, 3, 5, 4}, tokens));
  expect_error(ExitCode::kData, {"document table"}, open);  // past the end
  frame.vocab_size = 9;
  write_lying_pack(folder, frame, tokens, tables_of({2, 3, 4, 4}, tokens));
  expect_error(ExitCode::kData, {"outside the vocabulary of 9"}, open);
  frame.vocab_size = 10;
  frame.documents = uint64_t{1} << 60;
  write_lying_pack(folder, frame, tokens, tables_of({2, 3, 4, 4}, tokens));
  expect_error(ExitCode::kData, {"no shard of this version"}, open);
  frame.documents = uint64_t{1} << 39;  // tables larger than any memory
  write_lying_pack(folder, frame, tokens, tables_of({2, 3, 4, 4}, tokens));
  expect_error(ExitCode::kData, {"cut short"}, open);
}

TEST(Shards, AShardOfAnotherTokenizerThanItsIndexIsRefused) {
  const TemporaryFolder folder;
  std::string tokens;
  append_tokens(tokens, std::vector<int32_t>{1, 2}, 2);
  std::string tables;
  append_u64(tables, 2);
  append_u64(tables, 2);
  const Digest digest = digest_of(tokens);
  tables += std::string(digest.begin(), digest.end());
  write_lying_pack(
      folder, {.token_bytes = 2, .vocab_size = 10, .tokens = 2, .documents = 1, .text_bytes = 2},
      tokens, tables);
  const PackIndex honest = read_pack_index(folder.path());
  open_pack(folder.path());
  PackIndex other = honest;
  other.tokenizer = std::string(32, 'a');
  folder.write("index.json", write_pack_index(other));
  expect_error(ExitCode::kData, {"shard-00000.bin", "another tokenizer"},
               [&] { open_pack(folder.path()); });
  other = honest;
  other.vocab_size = 11;
  folder.write("index.json", write_pack_index(other));
  expect_error(ExitCode::kData, {"shard-00000.bin", "another tokenizer"},
               [&] { open_pack(folder.path()); });
}

TEST(Shards, OtherVersionsAreRefusedByNumber) {
  ShardFrame frame{.token_bytes = 2, .vocab_size = 10, .tokenizer = std::string(32, '0')};
  std::string trailer = encode_trailer(frame);
  std::string header = encode_header(frame);
  decode_frame(header, trailer, "shard");
  header[8] = 2;
  constexpr size_t kDigestAt = kTrailerBytes - 8 - kDigestBytes;
  const Digest digest = digest_of(header + trailer.substr(0, kDigestAt));
  std::copy(digest.begin(), digest.end(), trailer.begin() + kDigestAt);
  expect_error(ExitCode::kData, {"shard version 2", "version 1"},
               [&] { decode_frame(header, trailer, "shard"); });

  PackIndex empty;
  empty.tokenizer = std::string(32, '0');
  std::string index = write_pack_index(empty);
  parse_pack_index(index, "index.json");
  const std::string version = "\"version\": 1";
  index.replace(index.find(version), version.size(), "\"version\": 2");
  const size_t digits = index.size() - std::string("\"\n}\n").size() - 32;
  index.replace(digits, 32, Checksum::of(index.data(), digits));
  expect_error(ExitCode::kData, {"index.json", "pack version 2", "version 1"},
               [&] { parse_pack_index(index, "index.json"); });
}

TEST(Shards, NamesThatLeaveTheFolderAreRefused) {
  const TemporaryFolder folder;
  PackIndex index;
  index.tokenizer = std::string(32, '0');
  for (const std::string name : {"../x.bin", "/etc/passwd", "..", ""}) {
    index.train = {{name, 1, 1, 1, 1, std::string(32, '0')}};
    folder.write("index.json", write_pack_index(index));
    expect_error(ExitCode::kData, {"no plain name"}, [&] { read_pack_index(folder.path()); });
  }
}

}  // namespace
}  // namespace athanor::data
