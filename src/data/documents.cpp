#include "data/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "data/jsonl.h"
#include "data/line_reader.h"
#include "data/utf8.h"

namespace athanor::data {
namespace {

constexpr std::string_view kSeparator = "<|endoftext|>";
constexpr const char* kAccepted =
    "accepted are .txt and .jsonl files and folders of them, and packed shards";

std::string place(const fs::path& file, int64_t line) {
  return fmt::format("{}:{}", file.string(), line);
}

bool accepted(const fs::path& file) {
  return file.extension() == ".txt" || file.extension() == ".jsonl";
}

class JsonlReader : public DocumentReader {
 public:
  explicit JsonlReader(const fs::path& file) : file_(file), lines_(file) {}
  bool next(Document& document) override {
    while (true) {
      line_.clear();
      if (!lines_.next(line_)) return false;
      if (line_.ends_with('\n')) line_.pop_back();
      if (is_blank_json_line(line_)) continue;
      const std::string wrong = text_of_json_line(line_, document.text);
      if (!wrong.empty()) throw data_error(place(file_, lines_.number()) + ": " + wrong);
      document.where = place(file_, lines_.number());
      return true;
    }
  }
  std::string origin() const override { return file_.string(); }

 private:
  fs::path file_;
  LineReader lines_;
  std::string line_;
};

class TextReader : public DocumentReader {
 public:
  explicit TextReader(const fs::path& file) : file_(file), lines_(file) {}
  bool next(Document& document) override {
    document.text.clear();
    size_t line_begin = 0;
    int64_t first_line = 0;
    while (lines_.next(document.text)) {
      const std::string_view line = std::string_view(document.text).substr(line_begin);
      check(line);
      if (line == "<|endoftext|>\n" || line == kSeparator) {
        document.text.resize(line_begin);
        separated_ = true;
        if (first_line == 0) continue;  // no line since the last separator: no document
        document.text.pop_back();       // the newline before the separator is its own
        document.where = place(file_, first_line);
        return true;
      }
      if (first_line == 0) first_line = lines_.number();
      line_begin = document.text.size();
    }
    if (first_line == 0) return false;
    if (separated_ && document.text.ends_with('\n')) document.text.pop_back();
    document.where = place(file_, first_line);
    return true;
  }
  std::string origin() const override { return file_.string(); }

 private:
  void check(std::string_view line) {
    const size_t valid = valid_utf8_prefix(line);
    if (valid != line.size()) {
      throw data_error(fmt::format("{}: not UTF-8 at byte {} of the line",
                                   place(file_, lines_.number()), valid + 1));
    }
    if (line == "<|endoftext|>\r\n" && !std::exchange(warned_, true)) {
      log::warning(fmt::format(
          "{}: <|endoftext|> with a carriage return separates no documents; use \\n line ends",
          place(file_, lines_.number())));
    }
  }
  fs::path file_;
  LineReader lines_;
  bool separated_ = false;
  bool warned_ = false;
};

std::unique_ptr<DocumentReader> open_file(const fs::path& file) {
  if (file.extension() == ".jsonl") return std::make_unique<JsonlReader>(file);
  return std::make_unique<TextReader>(file);
}

class FilesReader : public DocumentReader {
 public:
  FilesReader(fs::path root, std::vector<fs::path> files)
      : root_(std::move(root)), files_(std::move(files)) {}
  bool next(Document& document) override {
    while (true) {
      if (reader_ == nullptr) {
        if (file_ == files_.size()) return false;
        reader_ = open_file(files_[file_++]);
      }
      if (reader_->next(document)) return true;
      reader_.reset();
    }
  }
  std::string origin() const override { return root_.string(); }

 private:
  fs::path root_;
  std::vector<fs::path> files_;
  size_t file_ = 0;
  std::unique_ptr<DocumentReader> reader_;
};

class MemoryReader : public DocumentReader {
 public:
  explicit MemoryReader(std::span<const std::string> texts) : texts_(texts) {}
  bool next(Document& document) override {
    if (index_ == texts_.size()) return false;
    document.text = texts_[index_++];
    document.where = fmt::format("text {}", index_);
    const size_t valid = valid_utf8_prefix(document.text);
    if (valid != document.text.size()) {
      throw data_error(fmt::format("{}: not UTF-8 at byte {}", document.where, valid + 1));
    }
    return true;
  }
  std::string origin() const override { return "the texts in memory"; }

 private:
  std::span<const std::string> texts_;
  size_t index_ = 0;
};

}  // namespace

DocumentFiles::DocumentFiles(const fs::path& path) : root_(path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    throw data_error(path.string() + ": no such file or folder");
  }
  if (error) throw system_error(error.value(), "read", path.string(), ExitCode::kData);
  if (!fs::is_directory(status)) {
    if (!accepted(path)) {
      throw data_error(
          fmt::format("{}: this type of file is not read; {}", path.string(), kAccepted));
    }
    files_ = {path};
  } else {
    fs::recursive_directory_iterator walk(path, error);
    for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
      const fs::path& entry = walk->path();
      if (entry.filename().native().starts_with('.')) {
        walk.disable_recursion_pending();
        continue;
      }
      std::error_code ignored;
      if (walk->is_directory(ignored)) continue;
      if (walk->is_regular_file(ignored) && accepted(entry)) {
        files_.push_back(entry);
      } else {
        if (ignored_++ == 0) ignored_example_ = entry.string();
      }
    }
    if (error) throw system_error(error.value(), "read", path.string(), ExitCode::kData);
    std::sort(files_.begin(), files_.end(),
              [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
    if (files_.empty()) {
      throw data_error(ignored_ == 0
                           ? fmt::format("{}: an empty folder; {}", path.string(), kAccepted)
                           : fmt::format("{}: no .txt or .jsonl file among its {} files; {}",
                                         path.string(), ignored_, kAccepted));
    }
  }
  for (const fs::path& file : files_) {
    const auto size = fs::file_size(file, error);
    bytes_ += error ? 0 : size;
  }
}

void DocumentFiles::warn_ignored() const {
  if (ignored_ == 0) return;
  log::warning(
      fmt::format("{}: {} files that are neither .txt nor .jsonl are left out (such as {})",
                  root_.string(), ignored_, ignored_example_));
}

std::unique_ptr<DocumentReader> DocumentFiles::read() const {
  return std::make_unique<FilesReader>(root_, files_);
}

Error no_text_error(const std::string& origin) {
  return data_error(origin + ": there is no text in it; add some or name another file or folder");
}

std::unique_ptr<DocumentReader> read_texts(std::span<const std::string> texts) {
  return std::make_unique<MemoryReader>(texts);
}

std::vector<uint64_t> document_sizes(DocumentReader& documents) {
  std::vector<uint64_t> sizes;
  for (Document document; documents.next(document);) sizes.push_back(document.text.size());
  return sizes;
}

}  // namespace athanor::data
