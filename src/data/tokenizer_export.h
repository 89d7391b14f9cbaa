// A tokenizer as files: in model directories, checkpoints and packs.
#pragma once

#include "base/files.h"
#include "data/tokenizer.h"

namespace athanor::data {

/// Writes tokenizer.files() into `folder` (each atomically). load_tokenizer(folder) gives the same
/// tokenizer again, and so does `AutoTokenizer.from_pretrained` of transformers 5: same ids, same
/// text, save where a text spells a special or byte piece ("</s>", "<0x0A>").
void export_tokenizer(const Tokenizer& tokenizer, const fs::path& folder);

}  // namespace athanor::data
