#include "data/tokenizer_export.h"

#include "base/log.h"

namespace athanor::data {

void export_tokenizer(const Tokenizer& tokenizer, const fs::path& folder) {
  const auto files = tokenizer.files();
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
