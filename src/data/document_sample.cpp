#include "data/document_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "base/log.h"
#include "base/random.h"

namespace athanor::data {
namespace {

/// A document and its place in the order; the sample keeps those with the smallest draws.
struct Sampled {
  uint64_t draw = 0;
  uint64_t index = 0;
  std::string text;
  bool operator<(const Sampled& other) const { return draw < other.draw; }
};

}  // namespace

std::vector<std::string> sample_documents(DocumentReader& documents, uint64_t max_bytes,
                                          uint64_t seed) {
  std::priority_queue<Sampled> kept;
  uint64_t bytes = 0;
  uint64_t index = 0;
  uint64_t dropped = 0;
  const uint64_t stream = stream_of("data.tokenizer_sample");
  for (Document document; documents.next(document); ++index) {
    const auto block = philox(seed, stream, index);
    bytes += document.text.size();
    kept.push({uint64_t{block[1]} << 32 | block[0], index, std::move(document.text)});
    while (bytes > max_bytes && kept.size() > 1) {
      bytes -= kept.top().text.size();
      kept.pop();
      ++dropped;
    }
  }
  if (dropped > 0) {
    log::note(fmt::format("the tokenizer is trained on {} of {} documents ({} MB)", index - dropped,
                          index, bytes >> 20));
  }
  std::vector<Sampled> in_order;
  while (!kept.empty()) {
    in_order.push_back(kept.top());
    kept.pop();
  }
  std::sort(in_order.begin(), in_order.end(),
            [](const Sampled& a, const Sampled& b) { return a.index < b.index; });
  std::vector<std::string> texts;
  for (Sampled& sampled : in_order) texts.push_back(std::move(sampled.text));
  return texts;
}

}  // namespace athanor::data
