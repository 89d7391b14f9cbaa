// Packing: documents to shards of token ids. The format is docs/formats-shards.md; shards.h reads
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/files.h"
#include "base/threads.h"
#include "data/documents.h"
#include "data/shards.h"
#include "data/tokenizer.h"

namespace athanor::data {

struct PackOptions {
  bool bos = false;  ///< each document begins with the tokenizer's bos
  bool eos = true;   ///< each document ends with the tokenizer's eos
  /// A shard is closed when it holds this many tokens; a longer document has a shard of its own.
  uint64_t shard_tokens = uint64_t{1} << 28;
  /// From choose_held_out: these documents go to the held-out split, and as text to
  /// `heldout.jsonl`. Empty: none.
  std::vector<bool> held_out = {};
};

/// Packs every document left in `documents` into the folder `out`: shards, the tokenizer's files,
/// `heldout.jsonl` when documents are held out, and `index.json`, which appears last. An older pack
/// in `out` stays whole until the new one has been written, and is never mixed with it; other files
/// in `out` are left alone. The same bytes for any number of threads. Errors: data_error of the
/// documents, or when there is no document; usage_error when the tokenizer lacks the bos or eos
/// asked for, or `out` cannot be written; kResources when it is full.
PackIndex pack(DocumentReader& documents, const Tokenizer& tokenizer, const PackOptions& options,
               const fs::path& out, const Threads& threads);

}  // namespace athanor::data
