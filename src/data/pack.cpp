#include "data/pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "base/new_directories.h"
#include "data/pack_index.h"
#include "data/shard_format.h"

namespace athanor::data {
namespace {

/// Documents encoded at a time: enough to keep all cores busy, little enough to hold.
constexpr size_t kBatchBytes = size_t{16} << 20;
constexpr const char* kHeldOutText = "heldout.jsonl";

/// A file of the new pack, under a name of its own until all files are whole; removed if it never
/// gets its final one.
class NewFile {
 public:
  NewFile(const fs::path& folder, std::string name)
      : name_(std::move(name)),
        final_(folder / name_),
        temporary_(folder / fmt::format("{}.new{}", name_, getpid())) {}
  ~NewFile() {
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove(temporary_, ignored);
  }
  NewFile(NewFile&& other) noexcept
      : name_(std::move(other.name_)),
        final_(std::move(other.final_)),
        temporary_(std::exchange(other.temporary_, fs::path())) {}
  NewFile& operator=(NewFile&&) = delete;

  const std::string& name() const { return name_; }
  const fs::path& path() const { return temporary_; }
  /// Gives the file its final name.
  void move() {
    rename_file(temporary_, final_);
    temporary_.clear();
  }

 private:
  std::string name_;
  fs::path final_;
  fs::path temporary_;
};

/// Writes the shards of one split. Tokens go to the file at once; the tables behind them stay in
/// memory until then.
class ShardWriter {
 public:
  ShardWriter(fs::path folder, std::string prefix, const Tokenizer& tokenizer, uint64_t limit)
      : folder_(std::move(folder)), prefix_(std::move(prefix)), limit_(limit) {
    frame_.token_bytes = tokenizer.vocab_size() <= 65536 ? 2 : 4;
    frame_.vocab_size = tokenizer.vocab_size();
    frame_.tokenizer = tokenizer.identity();
  }

  void add(std::span<const int32_t> ids, uint64_t text_bytes) {
    if (frame_.tokens > 0 && frame_.tokens + ids.size() > limit_) close_shard();
    frame_.tokens += ids.size();
    frame_.text_bytes += text_bytes;
    ++frame_.documents;
    append_u64(documents_, frame_.tokens);
    append_u64(documents_, text_bytes);
    append_tokens(block_, ids, frame_.token_bytes);
    const size_t block_bytes = kBlockTokens * frame_.token_bytes;
    size_t done = 0;
    for (; block_.size() - done >= block_bytes; done += block_bytes) {
      put_block(std::string_view(block_).substr(done, block_bytes));
    }
    block_.erase(0, done);
  }

  /// Closes the last shard. Gives the entries, and adds the files that are to be moved to their
  /// names.
  std::vector<ShardEntry> finish(std::vector<NewFile>& files) {
    if (frame_.tokens > 0) close_shard();
    for (NewFile& file : files_) files.push_back(std::move(file));
    files_.clear();
    return std::move(entries_);
  }

 private:
  void open_shard() {
    files_.emplace_back(folder_, fmt::format("{}-{:05}.bin", prefix_, entries_.size()));
    writer_.emplace(files_.back().path());
    const std::string header = encode_header(frame_);
    writer_->write(header.data(), header.size());
  }

  void put_block(std::string_view block) {
    if (!writer_) open_shard();
    const Digest digest = digest_of(block);
    digests_.append(reinterpret_cast<const char*>(digest.data()), kDigestBytes);
    writer_->write(block.data(), block.size());
  }

  void close_shard() {
    if (!block_.empty()) put_block(block_);
    const std::string tables = documents_ + digests_;
    frame_.tables = digest_of(tables);
    const std::string trailer = encode_trailer(frame_);
    writer_->write(tables.data(), tables.size());
    writer_->write(trailer.data(), trailer.size());
    writer_->close();
    writer_.reset();
    entries_.push_back({files_.back().name(), frame_.tokens, frame_.documents, frame_.text_bytes,
                        frame_.file_bytes(), hex_of(frame_.frame)});
    frame_.tokens = frame_.documents = frame_.text_bytes = 0;
    documents_.clear();
    digests_.clear();
    block_.clear();
  }

  fs::path folder_;
  std::string prefix_;
  uint64_t limit_;
  ShardFrame frame_;
  std::string documents_;  // table of documents, as in the file
  std::string digests_;    // table of blocks
  std::string block_;      // tokens that fill no block yet
  std::optional<FileWriter> writer_;
  std::vector<NewFile> files_;
  std::vector<ShardEntry> entries_;
};

/// A small file of the pack, written whole.
SideFile write_side_file(const fs::path& folder, const std::string& name, std::string_view content,
                         std::vector<NewFile>& files) {
  NewFile& file = files.emplace_back(folder, name);
  FileWriter writer(file.path());
  writer.write(content.data(), content.size());
  writer.close();
  return {name, content.size(), Checksum::of(content.data(), content.size())};
}

/// heldout.jsonl, a line at a time.
class HeldOutText {
 public:
  explicit HeldOutText(const fs::path& folder)
      : file_(folder, kHeldOutText), writer_(file_.path()) {}
  void add(const std::string& text) {
    const std::string line = nlohmann::json{{"text", text}}.dump() + "\n";
    writer_.write(line.data(), line.size());
    checksum_.update(line.data(), line.size());
  }
  SideFile finish(std::vector<NewFile>& files) {
    const uint64_t bytes = writer_.offset();
    writer_.close();
    files.push_back(std::move(file_));
    return {kHeldOutText, bytes, checksum_.hex()};
  }

 private:
  NewFile file_;
  FileWriter writer_;
  Checksum checksum_;
};

/// Moves the new files to their names. From the removal of the old index until the new one is
/// there, the folder is no pack at all: a crash leaves nothing that could be taken for one.
void replace_pack(const fs::path& out, std::vector<NewFile>& files, const PackIndex& index) {
  std::vector<std::string> old;
  if (is_pack(out)) {
    const PackIndex before = [&] {
      try {
        return read_pack_index(out);
      } catch (const Error&) {
        return PackIndex{};  // damaged: it is replaced all the same
      }
    }();
    for (const ShardEntry& shard : before.train) old.push_back(shard.file);
    for (const ShardEntry& shard : before.held_out) old.push_back(shard.file);
    for (const SideFile& side : before.files) old.push_back(side.file);
    fs::remove(out / kIndexFile);
    sync_directory(out);
  }
  for (NewFile& file : files) {
    file.move();
    std::erase(old, file.name());
  }
  for (const std::string& name : old) {
    std::error_code ignored;
    fs::remove(out / name, ignored);
  }
  write_file_atomically(out / kIndexFile, write_pack_index(index));
}

void check_specials(const Tokenizer& tokenizer, const PackOptions& options) {
  const SpecialIds special = tokenizer.special();
  if (options.bos && special.bos < 0) {
    throw usage_error("bos is asked for, but the tokenizer has none");
  }
  if (options.eos && special.eos < 0) {
    throw usage_error("eos is asked for, but the tokenizer has none");
  }
}

/// The next documents, until they are enough to be encoded together.
std::vector<std::string> next_batch(DocumentReader& documents) {
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (Document document; bytes < kBatchBytes && documents.next(document);) {
    bytes += document.text.size() + 64;  // so that a million empty ones end a batch, too
    texts.push_back(std::move(document.text));
  }
  return texts;
}

}  // namespace

PackIndex pack(DocumentReader& documents, const Tokenizer& tokenizer, const PackOptions& options,
               const fs::path& out, const Threads& threads) {
  check_specials(tokenizer, options);
  const NewDirectories made(out);
  std::error_code ignored;
  if (fs::exists(out / kIndexFile, ignored) && !is_pack(out)) {
    throw usage_error((out / kIndexFile).string() +
                      ": a file of something else is in the way; choose another folder");
  }
  const SpecialIds special = tokenizer.special();
  ShardWriter train(out, "shard", tokenizer, options.shard_tokens);
  ShardWriter held_out(out, "heldout", tokenizer, options.shard_tokens);
  std::optional<HeldOutText> held_out_text;
  size_t seen = 0;
  while (true) {
    const std::vector<std::string> texts = next_batch(documents);
    if (texts.empty()) break;
    const std::vector<std::vector<int32_t>> encoded = encode_all(tokenizer, texts, threads);
    for (size_t i = 0; i < texts.size(); ++i, ++seen) {
      if (!options.held_out.empty() && seen >= options.held_out.size()) continue;
      std::vector<int32_t> ids;
      ids.reserve(encoded[i].size() + 2);
      if (options.bos) ids.push_back(special.bos);
      ids.insert(ids.end(), encoded[i].begin(), encoded[i].end());
      if (options.eos) ids.push_back(special.eos);
      if (ids.empty()) continue;  // an empty text, and nothing to mark it with
      const bool apart = !options.held_out.empty() && options.held_out[seen];
      (apart ? held_out : train).add(ids, texts[i].size());
      if (apart) {
        if (!held_out_text) held_out_text.emplace(out);
        held_out_text->add(texts[i]);
      }
    }
  }
  if (seen == 0) throw no_text_error(documents.origin());
  if (!options.held_out.empty() && seen != options.held_out.size()) {
    throw data_error(fmt::format("the text changed while it was read: {} documents, then {}",
                                 options.held_out.size(), seen));
  }
  PackIndex index;
  index.tokenizer = tokenizer.identity();
  index.tokenizer_kind = name_of(tokenizer.kind());
  index.vocab_size = tokenizer.vocab_size();
  index.bos = options.bos;
  index.eos = options.eos;
  std::vector<NewFile> files;
  index.train = train.finish(files);
  index.held_out = held_out.finish(files);
  for (const auto& [name, content] : tokenizer.files()) {
    index.files.push_back(write_side_file(out, name, content, files));
  }
  if (held_out_text) index.files.push_back(held_out_text->finish(files));
  replace_pack(out, files, index);
  return index;
}

}  // namespace athanor::data
