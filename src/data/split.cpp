#include "data/split.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/random.h"

namespace athanor::data {
namespace {

/// How many orders are tried when a first one misses the window; with 16 documents or fewer every
/// subset is.
constexpr uint64_t kOrders = 64;
constexpr size_t kFewDocuments = 16;

struct Choice {
  std::vector<bool> held_out;
  uint64_t bytes = 0;
};

/// Takes documents in the order that (seed, attempt) draws while each brings the sum nearer to the
/// target.
Choice choose_greedily(std::span<const uint64_t> sizes, uint64_t seed, uint64_t attempt,
                       double target, uint64_t limit) {
  Choice choice{std::vector<bool>(sizes.size(), false), 0};
  for (uint64_t i = 0; i < sizes.size(); ++i) {
    const uint64_t d = permuted(i, sizes.size(), seed, stream_of("data.held_out", attempt));
    const uint64_t sum = choice.bytes + sizes[d];
    const double before = target - static_cast<double>(choice.bytes);
    if (before <= 0) break;
    if (sizes[d] == 0 || sum > limit) continue;
    if (std::abs(target - static_cast<double>(sum)) < before) {
      choice.held_out[d] = true;
      choice.bytes = sum;
    }
  }
  return choice;
}

/// The subset whose size is nearest to the target and not above the limit, out of all 2^n.
Choice choose_among_all(std::span<const uint64_t> sizes, double target, uint64_t limit) {
  Choice best{std::vector<bool>(sizes.size(), false), 0};
  for (uint64_t set = 1; set < uint64_t{1} << sizes.size(); ++set) {
    uint64_t sum = 0;
    for (size_t d = 0; d < sizes.size(); ++d) sum += (set >> d & 1) != 0 ? sizes[d] : 0;
    if (sum > limit || std::abs(target - static_cast<double>(sum)) >=
                           std::abs(target - static_cast<double>(best.bytes))) {
      continue;
    }
    best.bytes = sum;
    for (size_t d = 0; d < sizes.size(); ++d) {
      best.held_out[d] = (set >> d & 1) != 0 && sizes[d] > 0;
    }
  }
  return best;
}

class SelectedDocuments : public DocumentReader {
 public:
  SelectedDocuments(std::unique_ptr<DocumentReader> documents, std::vector<bool> held_out,
                    bool wanted)
      : documents_(std::move(documents)), held_out_(std::move(held_out)), wanted_(wanted) {}
  bool next(Document& document) override {
    while (documents_->next(document)) {
      if (index_ == held_out_.size()) throw changed(document.where);
      if (held_out_[index_++] == wanted_) return true;
    }
    if (index_ != held_out_.size()) throw changed("the text");
    return false;
  }
  std::string origin() const override { return documents_->origin(); }

 private:
  Error changed(const std::string& where) const {
    return data_error(fmt::format("{} changed while it was read: {} documents were counted first",
                                  where, held_out_.size()));
  }
  std::unique_ptr<DocumentReader> documents_;
  std::vector<bool> held_out_;
  bool wanted_;
  size_t index_ = 0;
};

}  // namespace

std::vector<bool> choose_held_out(std::span<const uint64_t> sizes, uint64_t seed, double share) {
  if (!(share >= 0 && share <= 0.5)) {
    throw usage_error(fmt::format("a held-out share of {} is not between 0 and 0.5", share));
  }
  const auto total = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), uint64_t{0}));
  const double target = share * total;
  const auto limit = static_cast<uint64_t>(1.25 * target);
  const auto in_window = [&](const Choice& choice) {
    return static_cast<double>(choice.bytes) >= 0.75 * target;
  };
  Choice best = choose_greedily(sizes, seed, 0, target, limit);
  if (in_window(best)) return best.held_out;
  if (sizes.size() <= kFewDocuments) return choose_among_all(sizes, target, limit).held_out;
  for (uint64_t attempt = 1; attempt < kOrders && !in_window(best); ++attempt) {
    Choice other = choose_greedily(sizes, seed, attempt, target, limit);
    if (std::abs(target - static_cast<double>(other.bytes)) <
        std::abs(target - static_cast<double>(best.bytes))) {
      best = std::move(other);
    }
  }
  return best.held_out;
}

std::unique_ptr<DocumentReader> select_documents(std::unique_ptr<DocumentReader> documents,
                                                 std::vector<bool> held_out, bool wanted) {
  return std::make_unique<SelectedDocuments>(std::move(documents), std::move(held_out), wanted);
}

int64_t write_jsonl(DocumentReader& documents, const fs::path& path) {
  fs::path temporary = path;
  temporary += ".tmp";
  int64_t count = 0;
  FileWriter writer(temporary);
  for (Document document; documents.next(document); ++count) {
    const std::string line = nlohmann::json{{"text", document.text}}.dump() + "\n";
    writer.write(line.data(), line.size());
  }
  writer.close();
  rename_file(temporary, path);
  return count;
}

}  // namespace athanor::data
