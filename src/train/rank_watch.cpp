#include "train/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/checksum.h"

namespace athanor::train {
namespace {

std::vector<int> ranks_without(const std::vector<std::string>& hashes, const std::string& hash) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != hash) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

/// Ranks beside those of the most frequent hash; all where two are as frequent.
std::vector<int> fewest(const std::vector<std::string>& hashes) {
  const auto times = [&](const std::string& hash) { return std::ranges::count(hashes, hash); };
  const std::string& most = *std::ranges::max_element(hashes, {}, times);
  const bool alone = std::ranges::all_of(
      hashes, [&](const std::string& hash) { return hash == most || times(hash) < times(most); });
  return ranks_without(hashes, alone ? most : "");
}

}  // namespace

RankWatch::Verdict RankWatch::compare(int64_t step, const model::Parameters& parameters) {
  suspects_.clear();
  if (!due(step)) return Verdict::kNotDue;
  const model::FlatSpace& space = parameters.space();
  std::string mine;
  for (const Tensor& values : {space.rest, space.matrices, parameters.balancing_biases()}) {
    mine += Checksum::of(values.data(), values.bytes());
  }
  const std::vector<std::string> hashes = communicator_.all_gather(mine);
  const bool replayed = step == disputed_step_;
  if (std::ranges::all_of(hashes, [&](const std::string& h) { return h == hashes.front(); })) {
    if (replayed) {
      suspects_ = ranks_without(disputed_, hashes.front());
      disputed_step_ = -1;
    }
    good_step_ = step;
    return Verdict::kSame;
  }
  suspects_ = fewest(hashes);
  if (replayed) return Verdict::kStays;
  disputed_step_ = step;
  disputed_ = hashes;
  return Verdict::kReplay;
}

std::string text_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

}  // namespace athanor::train
