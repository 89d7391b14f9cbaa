// The packed shard format. The input is an index.json (first byte even) or a shard (odd), whose
// checksums are put right first: otherwise they would stop everything at the gate.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "base/error.h"
#include "data/pack_index.h"
#include "data/shard_format.h"
#include "data/shards.h"

namespace {

using namespace athanor;        // NOLINT(google-build-using-namespace)
using namespace athanor::data;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

void put(std::string& file, size_t at, const Digest& digest) {
  std::memcpy(file.data() + at, digest.data(), digest.size());
}

/// Corrects a shard's checksums, as far as its figures make sense; returns the frame's.
std::string correct(std::string& file) {
  if (file.size() < kHeaderBytes + kTrailerBytes) return std::string(32, '0');
  const size_t trailer = file.size() - kTrailerBytes;
  std::memcpy(file.data(), "ATHSHARD", 8);
  std::memcpy(file.data() + file.size() - 8, "DRAHSHTA", 8);
  const uint64_t tokens = read_u64(file, trailer);
  const uint64_t token_bytes = static_cast<unsigned char>(file[12]) == 4 ? 4 : 2;
  if (tokens < file.size() && kHeaderBytes + tokens * token_bytes < trailer) {
    const size_t tables = kHeaderBytes + tokens * token_bytes;
    const std::string_view view = file;
    const uint64_t blocks = (tokens + kBlockTokens - 1) / kBlockTokens;
    if (blocks * kDigestBytes <= trailer - tables) {
      for (uint64_t b = 0; b < blocks; ++b) {
        const size_t begin = kHeaderBytes + b * kBlockTokens * token_bytes;
        const size_t end = std::min(begin + kBlockTokens * token_bytes, tables);
        put(file, trailer - (blocks - b) * kDigestBytes,
            digest_of(view.substr(begin, end - begin)));
      }
    }
    put(file, trailer + 24, digest_of(view.substr(tables, trailer - tables)));
  }
  const Digest frame = digest_of(file.substr(0, kHeaderBytes) + file.substr(trailer, 40));
  put(file, trailer + 40, frame);
  return hex_of(frame);
}

void read_whole(const fs::path& folder) {
  const auto source = open_pack(folder);
  if (source->tokens() > 1 << 22) return;
  std::vector<int32_t> ids(source->tokens());
  source->read(0, ids);
  for (uint64_t d = 0; d < source->documents(); ++d) {
    if (source->document_at(source->document_begin(d)) != d) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const fs::path folder =
      fs::temp_directory_path() / ("athanor_fuzz_shards_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  try {
    if (bytes[0] % 2 == 0) {
      parse_pack_index(content, "index.json");
      // With a good ending behind whatever it is.
      content += ",\n  \"checksum\": \"";
      content += athanor::Checksum::of(content.data(), content.size()) + "\"\n}\n";
      parse_pack_index(content, "index.json");
    } else {
      PackIndex index;
      const std::string checksum = correct(content);
      if (content.size() >= kHeaderBytes + kTrailerBytes) {
        const std::string_view view = content;
        index.tokenizer = view.substr(24, 32);
        std::replace_if(
            index.tokenizer.begin(), index.tokenizer.end(),
            [](char c) { return c < '0' || c > '9'; }, '0');
        content.replace(24, 32, index.tokenizer);
        index.vocab_size = 300;
        std::memcpy(content.data() + 16, "\x2C\x01\0\0", 4);
        const std::string again = correct(content);
        const size_t trailer = content.size() - kTrailerBytes;
        index.train = {{"shard-00000.bin", read_u64(content, trailer),
                        read_u64(content, trailer + 8), read_u64(content, trailer + 16),
                        content.size(), again}};
      } else {
        index.train = {{"shard-00000.bin", 1, 1, 1, content.size(), checksum}};
      }
      std::ofstream(folder / "shard-00000.bin", std::ios::binary) << content;
      std::ofstream(folder / "index.json", std::ios::binary) << write_pack_index(index);
      read_whole(folder);
    }
  } catch (const athanor::Error& error) {
    if (error.code() != athanor::ExitCode::kData) std::abort();
  }
  return 0;
}
