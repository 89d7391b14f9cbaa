#include "base/spelling.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace athanor {
namespace {

/// Optimal string alignment distance.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_word(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  size_t fewest = 0;
  for (const std::string& candidate : candidates) {
    const size_t distance = edits(word, candidate);
    if (distance * 2 > std::max(word.size(), candidate.size())) continue;
    if (best == nullptr || distance < fewest) {
      best = &candidate;
      fewest = distance;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates) {
  const std::string near = nearest_word(word, candidates);
  return near.empty() ? std::string() : "; did you mean '" + near + "'?";
}

}  // namespace athanor
