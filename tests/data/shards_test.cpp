#include "data/shards.h"

#include <algorithm>
#include <fstream>
#include <numeric>

#include "base/checksum.h"
#include "data/pack.h"
#include "data/pack_index.h"
#include "data/shard_format.h"
#include "data/split.h"
#include "testing.h"

namespace athanor::data {
namespace {

PackIndex pack_texts(const std::vector<std::string>& texts, const fs::path& out,
                     const PackOptions& options = {}, int threads = 2) {
  const auto documents = read_texts(texts);
  return pack(*documents, *make_byte_tokenizer(), options, out, Threads(threads));
}

std::vector<int32_t> all_tokens(const TokenSource& source) {
  std::vector<int32_t> ids(source.tokens());
  source.read(0, ids);
  return ids;
}

/// What a pack of `texts` with EOS must hold.
std::vector<int32_t> stream_of_texts(const std::vector<std::string>& texts, bool bos = false) {
  std::vector<int32_t> ids;
  for (const std::string& text : texts) {
    if (bos) ids.push_back(256);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    ids.push_back(257);
  }
  return ids;
}

TEST(Pack, HoldsEveryTokenAndBoundary) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"one", "", "three \xC3\xA9", std::string(20000, 'x')};
  const PackIndex index = pack_texts(texts, folder.path(), {.bos = true});
  EXPECT_TRUE(is_pack(folder.path()));
  EXPECT_TRUE(is_pack(folder / "index.json"));
  EXPECT_EQ(index.tokens(Split::kTrain), 3u + 0 + 8 + 20000 + 8);
  EXPECT_EQ(index.text_bytes(Split::kTrain), 20011u);
  const auto source = open_pack(folder.path());
  EXPECT_EQ(all_tokens(*source), stream_of_texts(texts, true));
  ASSERT_EQ(source->documents(), 4u);
  const std::vector<uint64_t> begins = {0, 5, 7, 17, 20019};
  for (uint64_t d = 0; d < 4; ++d) {
    EXPECT_EQ(source->document_begin(d), begins[d]);
    EXPECT_EQ(source->document_at(begins[d]), d);
    EXPECT_EQ(source->document_at(begins[d + 1] - 1), d);
    EXPECT_EQ(source->document_bytes(d), texts[d].size());
  }
  EXPECT_EQ(source->document_begin(4), source->tokens());
  EXPECT_EQ(load_tokenizer(folder.path())->identity(), index.tokenizer);
  EXPECT_TRUE(open_pack(folder.path(), Split::kHeldOut)->tokens() == 0);
  verify_pack(folder.path());
}

TEST(Pack, ShardsAreBoundedAndReadAsOneStream) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = sample_corpus(60, 2);
  const PackIndex index = pack_texts(texts, folder.path(), {.shard_tokens = 5000});
  EXPECT_GT(index.train.size(), 5u);
  for (const ShardEntry& shard : index.train) EXPECT_LE(shard.tokens, 5000u);
  const auto source = open_pack(folder.path());
  const std::vector<int32_t> expected = stream_of_texts(texts);
  EXPECT_EQ(all_tokens(*source), expected);
  RandomStream random(1, 1);
  for (int i = 0; i < 200; ++i) {
    const uint64_t begin = random.below(expected.size());
    std::vector<int32_t> ids(random.below(std::min<uint64_t>(12000, expected.size() - begin) + 1));
    source->read(begin, ids);
    ASSERT_TRUE(
        std::equal(ids.begin(), ids.end(), expected.begin() + static_cast<ptrdiff_t>(begin)));
  }
}

TEST(Pack, IsTheSameForAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = sample_corpus(50, 3);
  const std::vector<bool> held_out = choose_held_out(
      [&] {
        std::vector<uint64_t> sizes;
        for (const std::string& text : texts) sizes.push_back(text.size());
        return sizes;
      }(),
      1);
  pack_texts(texts, folder / "a", {.shard_tokens = 7000, .held_out = held_out}, 1);
  pack_texts(texts, folder / "b", {.shard_tokens = 7000, .held_out = held_out}, 7);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "a")) {
    EXPECT_EQ(read_file(entry.path()), read_file(folder / "b" / entry.path().filename().string()));
    ++files;
  }
  EXPECT_GE(files, 6);
}

TEST(Pack, HeldOutDocumentsAreApart) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"a\n", "b", "c", "d"};
  const PackIndex index =
      pack_texts(texts, folder.path(), {.held_out = {false, true, false, true}});
  EXPECT_EQ(index.documents(Split::kTrain), 2u);
  EXPECT_EQ(all_tokens(*open_pack(folder.path())), stream_of_texts({"a\n", "c"}));
  EXPECT_EQ(all_tokens(*open_pack(folder.path(), Split::kHeldOut)), stream_of_texts({"b", "d"}));
  EXPECT_EQ(read_file(folder / "heldout.jsonl"), "{\"text\":\"b\"}\n{\"text\":\"d\"}\n");
  for (const size_t wrong : {3u, 5u}) {
    expect_error(ExitCode::kData, {"changed"},
                 [&] { pack_texts(texts, folder / "x", {.held_out = std::vector<bool>(wrong)}); });
    EXPECT_FALSE(fs::exists(folder / "x")) << "left something behind";
  }
}

TEST(Pack, ANewPackReplacesTheOldOneWhole) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = sample_corpus(40, 5);
  pack_texts(texts, folder.path(), {.shard_tokens = 3000, .held_out = std::vector<bool>(40, true)});
  folder.write("notes.md", "mine");
  const auto still_open = open_pack(folder.path(), Split::kHeldOut);
  pack_texts({"short"}, folder.path());
  EXPECT_EQ(all_tokens(*open_pack(folder.path())), stream_of_texts({"short"}));
  verify_pack(folder.path());
  // Nothing of the old one is left, what is not ours is, and who had it open reads on.
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"index.json", "notes.md", "shard-00000.bin",
                                             "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(all_tokens(*still_open), stream_of_texts(texts));
}

TEST(Pack, FailingLeavesTheOldPackAsItWas) {
  const TemporaryFolder folder;
  pack_texts({"old"}, folder.path());
  const fs::path bad = folder.write("in/bad.jsonl", "{\"text\":\"new\"}\n{\"text\":\n");
  const auto documents = DocumentFiles(bad).read();
  expect_error(ExitCode::kData, {"bad.jsonl:2"},
               [&] { pack(*documents, *make_byte_tokenizer(), {}, folder.path(), Threads(1)); });
  verify_pack(folder.path());
  EXPECT_EQ(all_tokens(*open_pack(folder.path())), stream_of_texts({"old"}));
}

TEST(Pack, RefusesNothingAndStrangers) {
  const TemporaryFolder folder;
  expect_error(ExitCode::kData, {"no text"}, [&] { pack_texts({}, folder / "a"); });
  folder.write("b/index.json", "{\"their\": 1}");
  expect_error(ExitCode::kUsage, {"index.json", "something else"},
               [&] { pack_texts({"x"}, folder / "b"); });
  EXPECT_FALSE(is_pack(folder / "b"));
  EXPECT_FALSE(is_pack(folder / "a"));
  expect_error(ExitCode::kData, {"index.json"}, [&] { open_pack(folder / "a"); });
}

TEST(Pack, AFullDiskIsToldAndLeavesNothingHalf) {
  // /dev/full answers every write with ENOSPC; the shard's temporary name is made to lead there.
  const TemporaryFolder folder;
  fs::create_directories(folder / "p");
  const std::string temporary = "shard-00000.bin.new" + std::to_string(::getpid());
  fs::create_symlink("/dev/full", folder / "p" / temporary);
  expect_error(ExitCode::kResources, {"shard-00000.bin"}, [&] { pack_texts({"x"}, folder / "p"); });
  EXPECT_TRUE(fs::is_empty(folder / "p"));
}

TEST(Shards, EveryFlippedByteIsFound) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {"first document", "second", std::string(300, 'y')};
  pack_texts(texts, folder.path(), {.held_out = {false, true, false}});
  const std::vector<int32_t> expected = all_tokens(*open_pack(folder.path()));
  int flipped = 0;
  for (const std::string name :
       {"shard-00000.bin", "index.json", "heldout-00000.bin", "tokenizer.json", "heldout.jsonl"}) {
    const std::string good = read_file(folder / name);
    // The tokenizer's file has one checksum over all of it: a sample of its bytes shows as much.
    for (size_t i = 0; i < good.size(); i += name == "tokenizer.json" ? 61 : 1, ++flipped) {
      std::string bad = good;
      bad[i] ^= static_cast<char>(1 << (i % 8));
      folder.write(name, bad);
      SCOPED_TRACE(name + " byte " + std::to_string(i));
      // The whole check finds each, and names the file.
      expect_error(ExitCode::kData, {name == "index.json" ? folder.path().string() : name},
                   [&] { verify_pack(folder.path()); });
      // And a reader never gets a wrong token.
      try {
        ASSERT_EQ(all_tokens(*open_pack(folder.path())), expected);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kData) << error.what();
      }
    }
    folder.write(name, good);
  }
  EXPECT_GT(flipped, 2000);
  verify_pack(folder.path());
}

TEST(Shards, ADamagedBlockIsNamedAndTheOthersAreRead) {
  const TemporaryFolder folder;
  pack_texts({std::string(3 * kBlockTokens, 'x')}, folder.path());
  std::string content = read_file(folder / "shard-00000.bin");
  content[kHeaderBytes + 2 * kBlockTokens * 2 + 5] ^= 1;
  std::ofstream(folder / "shard-00000.bin", std::ios::binary) << content;
  const auto source = open_pack(folder.path());
  std::vector<int32_t> ids(kBlockTokens);
  source->read(kBlockTokens, ids);  // block 1 is sound
  EXPECT_EQ(ids, std::vector<int32_t>(kBlockTokens, 'x'));
  expect_error(ExitCode::kData, {"shard-00000.bin", "block 2 of 4", "damaged"},
               [&] { source->read(kBlockTokens + 1, ids); });
}

TEST(Shards, AFileCutAnywhereIsFoundWhenOpened) {
  const TemporaryFolder folder;
  pack_texts({"first", std::string(5000, 'y')}, folder.path());
  const std::string good = read_file(folder / "shard-00000.bin");
  for (size_t size = 0; size < good.size(); size += size < 300 ? 1 : 61) {
    std::ofstream(folder / "shard-00000.bin", std::ios::binary) << good.substr(0, size);
    expect_error(ExitCode::kData, {"shard-00000.bin", "cut short"},
                 [&] { open_pack(folder.path()); });
  }
  std::ofstream(folder / "shard-00000.bin", std::ios::binary) << good << 'x';
  expect_error(ExitCode::kData, {"longer"}, [&] { open_pack(folder.path()); });
  fs::remove(folder / "shard-00000.bin");
  expect_error(ExitCode::kData, {"shard-00000.bin"}, [&] { open_pack(folder.path()); });
}

TEST(Shards, AFileCutWhileOpenIsFoundAtTheBlock) {
  const TemporaryFolder folder;
  pack_texts({std::string(20000, 'y')}, folder.path());
  const auto source = open_pack(folder.path());
  fs::resize_file(folder / "shard-00000.bin", 10000);
  std::vector<int32_t> ids(10);
  source->read(0, ids);
  expect_error(ExitCode::kData, {"shard-00000.bin", "cut short in block 3"},
               [&] { source->read(15000, ids); });
}

TEST(Shards, SwappedShardsAreFound) {
  const TemporaryFolder folder;
  pack_texts({std::string(99, 'a'), std::string(99, 'b')}, folder.path(), {.shard_tokens = 100});
  fs::rename(folder / "shard-00000.bin", folder / "x");
  fs::rename(folder / "shard-00001.bin", folder / "shard-00000.bin");
  fs::rename(folder / "x", folder / "shard-00001.bin");
  expect_error(ExitCode::kData, {"not the shard that index.json lists"},
               [&] { open_pack(folder.path()); });
}

TEST(Shards, AnotherTokenizerIsRefusedByName) {
  const TemporaryFolder folder;
  PackIndex index = pack_texts({"x"}, folder.path());
  const auto bytes = make_byte_tokenizer();
  require_tokenizer(index, *bytes, folder.path());
  index.tokenizer = std::string(32, 'a');
  expect_error(ExitCode::kData,
               {folder.path().string(), "another tokenizer", bytes->identity(), index.tokenizer},
               [&] { require_tokenizer(index, *bytes, folder.path()); });
}

/// A tokenizer of any size: every text is its first and its last id.
class WideTokenizer final : public Tokenizer {
 public:
  explicit WideTokenizer(int32_t size) : size_(size) {}
  TokenizerKind kind() const override { return TokenizerKind::kBpe; }
  int32_t vocab_size() const override { return size_; }
  SpecialIds special() const override { return {.eos = 1}; }
  const std::string& identity() const override { return identity_; }
  std::string piece(int32_t) const override { return {}; }
  std::vector<int32_t> encode(std::string_view) const override { return {0, size_ - 1}; }
  std::unique_ptr<StreamDecoder> stream_decoder(bool) const override { return nullptr; }
  std::vector<std::pair<std::string, std::string>> files() const override { return {}; }

 private:
  int32_t size_;
  std::string identity_ = std::string(32, '7');
};

TEST(Pack, TokensTakeTwoBytesAsLongAsEveryIdFits) {
  for (const int32_t size : {65535, 65536, 65537, 262272}) {
    const TemporaryFolder folder;
    const std::vector<std::string> texts = {"x", "y"};
    const auto documents = read_texts(texts);
    const PackIndex index = pack(*documents, WideTokenizer(size), {}, folder.path(), Threads(1));
    EXPECT_EQ(all_tokens(*open_pack(folder.path())),
              (std::vector<int32_t>{0, size - 1, 1, 0, size - 1, 1}));
    const uint64_t around = kHeaderBytes + 2 * 16 + kDigestBytes + kTrailerBytes;
    EXPECT_EQ(index.train[0].file_bytes, around + 6 * (size <= 65536 ? 2u : 4u)) << size;
  }
}

TEST(Shards, FourByteTokensForLargeVocabularies) {
  std::string bytes;
  const std::vector<int32_t> ids = {0, 65535, 65536, 262271, 2147483647};
  append_tokens(bytes, ids, 4);
  EXPECT_EQ(bytes.size(), 20u);
  std::vector<int32_t> back(5);
  EXPECT_TRUE(decode_tokens(bytes, 4, 2147483647, std::span(back).first(4)));
  EXPECT_FALSE(decode_tokens(bytes, 4, 2147483647, back));
  EXPECT_EQ(back, ids);
}

}  // namespace
}  // namespace athanor::data
