#include "data/shards.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/checksum.h"
#include "data/pack_index.h"
#include "data/shard_format.h"

namespace athanor::data {
namespace {

/// One open shard file. Frame and tables have been checked; tokens are read and checked a block at
/// a time with pread, so that neither a file cut while it is read nor a page gone bad later can
/// pass.
class Shard {
 public:
  Shard(const fs::path& folder, const ShardEntry& entry, const PackIndex& index)
      : name_((folder / entry.file).string()), file_(::open(name_.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (!file_.valid()) throw system_error(errno, "read", name_, ExitCode::kData);
    read_frame(entry);
    if (hex_of(frame_.frame) != entry.checksum) {
      throw data_error(name_ + ": not the shard that index.json lists; pack the text again");
    }
    if (frame_.tokens != entry.tokens || frame_.documents != entry.documents ||
        frame_.text_bytes != entry.text_bytes) {
      throw data_error(name_ + ": other counts than index.json lists; pack the text again");
    }
    if (frame_.tokenizer != index.tokenizer || frame_.vocab_size != index.vocab_size) {
      throw data_error(name_ + ": made with another tokenizer than its index.json says");
    }
    read_tables();
  }

  const std::string& name() const { return name_; }
  const ShardFrame& frame() const { return frame_; }
  /// Per document the position, in this shard, behind its last token.
  const std::vector<uint64_t>& ends() const { return ends_; }
  const std::vector<uint64_t>& text_bytes() const { return text_bytes_; }

  /// Copies tokens [position, position + ids.size()) of this shard.
  void read(uint64_t position, std::span<int32_t> ids) const {
    std::array<int32_t, kBlockTokens> block;
    while (!ids.empty()) {
      const uint64_t b = position / kBlockTokens;
      const size_t count = read_block(b, block);
      const size_t skip = position % kBlockTokens;
      const size_t taken = std::min(count - skip, ids.size());
      std::copy_n(block.begin() + static_cast<ptrdiff_t>(skip), taken, ids.begin());
      ids = ids.subspan(taken);
      position += taken;
    }
  }

  /// Fills `block` with block b; returns its number of tokens.
  size_t read_block(uint64_t b, std::array<int32_t, kBlockTokens>& block) const {
    const uint64_t begin = b * kBlockTokens;
    const size_t count = std::min(kBlockTokens, frame_.tokens - begin);
    std::array<char, kBlockTokens * 4> raw;
    const std::span<char> bytes(raw.data(), count * frame_.token_bytes);
    const size_t got = read_at(kHeaderBytes + begin * frame_.token_bytes, bytes);
    if (got != bytes.size()) {
      throw data_error(fmt::format("{}: cut short in block {} of {}; pack the text again", name_, b,
                                   frame_.blocks()));
    }
    const std::string_view view(bytes.data(), bytes.size());
    if (digest_of(view) != digests_[b]) {
      throw data_error(fmt::format("{}: block {} of {} is damaged (checksum); pack the text again",
                                   name_, b, frame_.blocks()));
    }
    if (!decode_tokens(view, frame_.token_bytes, frame_.vocab_size, {block.data(), count})) {
      throw data_error(fmt::format("{}: block {} holds a token outside the vocabulary of {}", name_,
                                   b, frame_.vocab_size));
    }
    return count;
  }

 private:
  /// Fills `buffer` from `offset`; returns how much the file had.
  size_t read_at(uint64_t offset, std::span<char> buffer) const {
    size_t filled = 0;
    while (filled < buffer.size()) {
      const ssize_t n = ::pread(file_.get(), buffer.data() + filled, buffer.size() - filled,
                                static_cast<off_t>(offset + filled));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw system_error(errno, "read", name_, ExitCode::kData);
      if (n == 0) break;
      filled += static_cast<size_t>(n);
    }
    return filled;
  }

  void read_frame(const ShardEntry& entry) {
    struct stat info{};
    if (fstat(file_.get(), &info) != 0) throw system_error(errno, "read", name_, ExitCode::kData);
    const auto size = static_cast<uint64_t>(info.st_size);
    const auto wrong_size = [&](uint64_t wanted) {
      return data_error(fmt::format("{}: {}: {} bytes where {} belong; pack the text again", name_,
                                    size < wanted ? "cut short" : "longer than it was", size,
                                    wanted));
    };
    if (size != entry.file_bytes) throw wrong_size(entry.file_bytes);
    if (size < kHeaderBytes + kTrailerBytes) throw wrong_size(kHeaderBytes + kTrailerBytes);
    std::string header(kHeaderBytes, '\0');
    std::string trailer(kTrailerBytes, '\0');
    if (read_at(0, header) != header.size() ||
        read_at(size - kTrailerBytes, trailer) != trailer.size()) {
      throw wrong_size(entry.file_bytes);
    }
    frame_ = decode_frame(header, trailer, name_);
    if (size != frame_.file_bytes()) throw wrong_size(frame_.file_bytes());
  }

  void read_tables() {
    std::string tables(frame_.table_bytes(), '\0');
    tables.resize(read_at(frame_.tables_begin(), tables));
    const Error damaged =
        data_error(name_ + ": the document table is damaged (checksum); pack the text again");
    if (tables.size() != frame_.table_bytes() || digest_of(tables) != frame_.tables) throw damaged;
    uint64_t end = 0;
    uint64_t bytes = 0;
    for (uint64_t d = 0; d < frame_.documents; ++d) {
      const uint64_t next = read_u64(tables, d * 16);
      if (next <= end) throw damaged;  // every document has a token
      end = next;
      ends_.push_back(end);
      text_bytes_.push_back(read_u64(tables, d * 16 + 8));
      bytes += text_bytes_.back();
    }
    if (end != frame_.tokens || bytes != frame_.text_bytes) throw damaged;
    digests_.resize(frame_.blocks());
    std::memcpy(digests_.data(), tables.data() + frame_.documents * 16,
                digests_.size() * kDigestBytes);
  }

  std::string name_;
  FileDescriptor file_;
  ShardFrame frame_;
  std::vector<uint64_t> ends_;
  std::vector<uint64_t> text_bytes_;
  std::vector<Digest> digests_;
};

fs::path folder_of(const fs::path& pack) {
  std::error_code ignored;
  return fs::is_directory(pack, ignored) ? pack : pack.parent_path();
}

class PackSource : public TokenSource {
 public:
  PackSource(const fs::path& pack, Split split) : name_(pack.string()) {
    const fs::path folder = folder_of(pack);
    const PackIndex index = read_pack_index(pack);
    for (const ShardEntry& entry : index.shards(split)) {
      const Shard& shard = shards_.emplace_back(folder, entry, index);
      first_token_.push_back(tokens_);
      for (const uint64_t end : shard.ends()) ends_.push_back(tokens_ + end);
      text_bytes_.insert(text_bytes_.end(), shard.text_bytes().begin(), shard.text_bytes().end());
      tokens_ += shard.frame().tokens;
    }
  }

  const std::string& name() const override { return name_; }
  uint64_t tokens() const override { return tokens_; }
  uint64_t documents() const override { return ends_.size(); }
  uint64_t document_at(uint64_t position) const override {
    require(position < tokens_, "a token position outside its source");
    return static_cast<uint64_t>(std::upper_bound(ends_.begin(), ends_.end(), position) -
                                 ends_.begin());
  }
  uint64_t document_begin(uint64_t document) const override {
    return document == 0 ? 0 : ends_.at(document - 1);
  }
  uint64_t document_bytes(uint64_t document) const override { return text_bytes_.at(document); }
  void read(uint64_t position, std::span<int32_t> ids) const override {
    require(position + ids.size() <= tokens_, "tokens read outside their source");
    while (!ids.empty()) {
      const auto s =
          static_cast<size_t>(std::upper_bound(first_token_.begin(), first_token_.end(), position) -
                              first_token_.begin() - 1);
      const uint64_t inside = position - first_token_[s];
      const size_t taken = std::min<size_t>(shards_[s].frame().tokens - inside, ids.size());
      shards_[s].read(inside, ids.first(taken));
      ids = ids.subspan(taken);
      position += taken;
    }
  }

 private:
  std::string name_;
  std::vector<Shard> shards_;
  std::vector<uint64_t> first_token_;  // of each shard, in the stream
  std::vector<uint64_t> ends_;         // of each document, in the stream
  std::vector<uint64_t> text_bytes_;
  uint64_t tokens_ = 0;
};

class MemorySource : public TokenSource {
 public:
  MemorySource(std::vector<int32_t> ids, std::vector<uint64_t> ends)
      : ids_(std::move(ids)), ends_(std::move(ends)) {
    require(ends_.empty() ? ids_.empty() : ends_.back() == ids_.size(),
            "documents that do not cover their tokens");
  }
  const std::string& name() const override { return name_; }
  uint64_t tokens() const override { return ids_.size(); }
  uint64_t documents() const override { return ends_.size(); }
  uint64_t document_at(uint64_t position) const override {
    require(position < ids_.size(), "a token position outside its source");
    return static_cast<uint64_t>(std::upper_bound(ends_.begin(), ends_.end(), position) -
                                 ends_.begin());
  }
  uint64_t document_begin(uint64_t document) const override {
    return document == 0 ? 0 : ends_.at(document - 1);
  }
  uint64_t document_bytes(uint64_t document) const override {
    return document_begin(document + 1) - document_begin(document);
  }
  void read(uint64_t position, std::span<int32_t> ids) const override {
    require(position + ids.size() <= ids_.size(), "tokens read outside their source");
    std::copy_n(ids_.begin() + static_cast<ptrdiff_t>(position), ids.size(), ids.begin());
  }

 private:
  std::string name_ = "tokens in memory";
  std::vector<int32_t> ids_;
  std::vector<uint64_t> ends_;
};

}  // namespace

bool is_pack(const fs::path& path) {
  std::error_code ignored;
  const fs::path file = fs::is_directory(path, ignored) ? path / kIndexFile : path;
  if (file.filename() != kIndexFile || !fs::is_regular_file(file, ignored)) return false;
  return looks_like_pack_index(read_file(file));
}

PackIndex read_pack_index(const fs::path& pack) {
  const fs::path file = folder_of(pack) / kIndexFile;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    throw data_error(pack.string() + ": no index.json, so this is no (finished) pack of shards");
  }
  return parse_pack_index(read_file(file), file.string());
}

std::unique_ptr<TokenSource> open_pack(const fs::path& pack, Split split) {
  return std::make_unique<PackSource>(pack, split);
}

void verify_pack(const fs::path& pack) {
  const PackIndex index = read_pack_index(pack);
  std::array<int32_t, kBlockTokens> block;
  for (const Split split : {Split::kTrain, Split::kHeldOut}) {
    for (const ShardEntry& entry : index.shards(split)) {
      const Shard shard(folder_of(pack), entry, index);
      for (uint64_t b = 0; b < shard.frame().blocks(); ++b) shard.read_block(b, block);
    }
  }
  for (const SideFile& side : index.files) {
    const fs::path path = folder_of(pack) / side.file;
    const std::string content = read_file(path);
    if (content.size() != side.file_bytes ||
        Checksum::of(content.data(), content.size()) != side.checksum) {
      throw data_error(path.string() + ": damaged or edited (checksum); pack the text again");
    }
  }
}

void require_tokenizer(const PackIndex& index, const Tokenizer& tokenizer, const fs::path& pack) {
  if (index.tokenizer == tokenizer.identity()) return;
  throw data_error(fmt::format(
      "{}: packed with another tokenizer ({} of {} tokens, {}) than this run's ({} of {} tokens, "
      "{}); pack the text again with this one",
      pack.string(), index.tokenizer_kind, index.vocab_size, index.tokenizer,
      name_of(tokenizer.kind()), tokenizer.vocab_size(), tokenizer.identity()));
}

std::unique_ptr<TokenSource> make_token_source(std::vector<int32_t> ids,
                                               std::vector<uint64_t> document_ends) {
  return std::make_unique<MemorySource>(std::move(ids), std::move(document_ends));
}

}  // namespace athanor::data
