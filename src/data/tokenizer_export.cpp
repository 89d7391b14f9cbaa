#include "data/tokenizer_export.h"

#include <algorithm>

#include "base/log.h"

namespace athanor::data {

void export_tokenizer(const Tokenizer& tokenizer, const fs::path& folder) {
  auto files = tokenizer.files();
  // Those by which a folder holds a tokenizer come last: what is cut off before that looks like none.
  std::partition(files.begin(), files.end(), [](const auto& file) {
    return file.first != "tokenizer.json" && file.first != "tokenizer.model";
  });
  bool json = false;
  for (const auto& [name, content] : files) {
    write_file_atomically(folder / name, content);
    json |= name == "tokenizer.json";
  }
  if (!json) {
    log::warning(folder.string() +
                 ": this SentencePiece model changes text before it encodes, which no "
                 "tokenizer.json is written "
                 "for; only tokenizer.model is");
  }
}

}  // namespace athanor::data
