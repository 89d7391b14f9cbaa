// A sample of documents that fits memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/documents.h"

namespace athanor::data {

/// At most `max_bytes` of the text left in `documents`, in whole documents and in their order: all of it, or, said in a
/// note, the documents with the smallest numbers drawn from (seed, place). One is always kept.
std::vector<std::string> sample_documents(DocumentReader& documents, uint64_t max_bytes,
                                          uint64_t seed);

}  // namespace athanor::data
