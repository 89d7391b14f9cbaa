// Held-out documents: which documents training never sees.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/files.h"
#include "data/documents.h"

namespace athanor::data {

/// Which documents are held out, as a pure function of their sizes, order and the seed. Whole
/// documents are picked in an order drawn by `seed` until `share` of all bytes is reached as nearly
/// as whole documents allow; never more than 1.25 · share (5 % for the default), and between 0.75
/// and 1.25 · share wherever a set of documents with such a size is found. Nothing is held out when
/// every document is larger than that (a single one, or few large ones): the caller warns.
/// usage_error unless 0 ≤ share ≤ 0.5.
std::vector<bool> choose_held_out(std::span<const uint64_t> sizes, uint64_t seed,
                                  double share = 0.04);

/// The documents of `documents` that are held out (`wanted` true) or not (false). The walk must be
/// the one whose sizes were given to choose_held_out: a different number of documents is a
/// data_error ("changed while being read").
std::unique_ptr<DocumentReader> select_documents(std::unique_ptr<DocumentReader> documents,
                                                 std::vector<bool> held_out, bool wanted);

/// Writes documents as .jsonl, `{"text": …}` a line; returns their number. The file appears whole
/// or not at all.
int64_t write_jsonl(DocumentReader& documents, const fs::path& path);

}  // namespace athanor::data
