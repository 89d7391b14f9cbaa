// Documents out of files: .txt and .jsonl, one at a time, so that a folder may be larger than
// memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"

namespace athanor::data {

/// One text, valid UTF-8, and where it came from ("corpus/a.jsonl:23": file and first line).
struct Document {
  std::string text;
  std::string where;
};

/// A walk over documents in a fixed order. One document at a time is in memory.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  /// Fills `document` with the next one; false at the end. data_error "FILE:LINE: what" for text
  /// that is not UTF-8 or a line that is not a JSON object with a string `text`.
  virtual bool next(Document& document) = 0;
  /// The file or folder that is walked, for messages about all of its documents.
  virtual std::string origin() const = 0;
};

/// The documents below a path: one .txt file, one .jsonl file, or a folder of them, walked
/// recursively in byte order of the paths. Hidden files and folders are passed over; files of other
/// types are counted (one warning by `warn_ignored`).
/// * .jsonl: the string `text` of each line's object, which has it once. Lines end at \n alone; a
///   byte order mark, CRLF and blank lines are accepted.
/// * .txt: the whole file; or, when it has lines that are exactly `<|endoftext|>`, the parts
///   between them, without the newline before such a line and without the last newline of the file.
///   A part without any line is no document.
class DocumentFiles {
 public:
  /// data_error, saying what is accepted, when `path` does not exist, is a file of another type or
  /// a folder without any file of these types.
  explicit DocumentFiles(const fs::path& path);
  const std::vector<fs::path>& files() const { return files_; }
  int64_t ignored() const { return ignored_; }
  /// Bytes of all files, for progress.
  uint64_t bytes() const { return bytes_; }
  void warn_ignored() const;
  /// A new walk from the first document.
  std::unique_ptr<DocumentReader> read() const;

 private:
  fs::path root_;
  std::vector<fs::path> files_;
  int64_t ignored_ = 0;
  std::string ignored_example_;
  uint64_t bytes_ = 0;
};

/// The data_error for a walk that gave no text at all.
Error no_text_error(const std::string& origin);

/// A walk over texts in memory. `texts` must outlive it.
std::unique_ptr<DocumentReader> read_texts(std::span<const std::string> texts);

/// Sizes in bytes of all documents of a walk: what choose_held_out (split.h) needs.
std::vector<uint64_t> document_sizes(DocumentReader& documents);

}  // namespace athanor::data
