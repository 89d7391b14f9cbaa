#include "data/hf/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/error.h"

namespace athanor::data::hf {
namespace {

/// Up to here searching all ranks for the lowest is faster than a heap.
constexpr size_t kShort = 48;
constexpr uint32_t kNobody = 0xFFFFFFFF;

void merge_short(const MergeTable& merges, std::vector<int32_t>& ids) {
  Merge pairs[kShort];  // pairs[i] joins ids[i] and ids[i + 1]
  size_t n = ids.size();
  for (size_t i = 0; i + 1 < n; ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merge::kNone) break;
    ids[best] = pairs[best].id;
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              ids.begin() + static_cast<std::ptrdiff_t>(n),
              ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(pairs + best + 1, pairs + n - 1, pairs + best);
    --n;
    if (best > 0) pairs[best - 1] = merges.find(ids[best - 1], ids[best]);
    if (best + 1 < n) pairs[best] = merges.find(ids[best], ids[best + 1]);
  }
  ids.resize(n);
}

/// By a heap of (rank, position). An entry is stale when the rank at its position is another by now: a rank belongs to one
/// pair of tokens.
void merge_long(const MergeTable& merges, std::vector<int32_t>& ids, MergeScratch& scratch) {
  require(ids.size() < kNobody, "a word of more than four billion tokens");
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.resize(ids.size());
  heap.clear();
  const auto n = static_cast<uint32_t>(ids.size());
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t rank = i + 1 < n ? merges.find(ids[i], ids[i + 1]).rank : Merge::kNone;
    symbols[i] = {ids[i], rank, i == 0 ? kNobody : i - 1, i + 1 < n ? i + 1 : kNobody};
    if (rank != Merge::kNone) heap.push_back(static_cast<uint64_t>(rank) << 32 | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto renew = [&](uint32_t at) {
    auto& symbol = symbols[at];
    symbol.rank = symbol.next == kNobody ? Merge::kNone
                                         : merges.find(symbol.id, symbols[symbol.next].id).rank;
    if (symbol.rank == Merge::kNone) return;
    heap.push_back(static_cast<uint64_t>(symbol.rank) << 32 | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.front() >> 32);
    const auto at = static_cast<uint32_t>(heap.front());
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    auto& left = symbols[at];
    if (left.rank != rank) continue;
    auto& right = symbols[left.next];
    left.id = merges.find(left.id, right.id).id;
    right.rank = Merge::kNone;  // what the heap still holds of it is stale
    left.next = right.next;
    if (left.next != kNobody) symbols[left.next].previous = at;
    renew(at);
    if (left.previous != kNobody) renew(left.previous);
  }
  size_t kept = 0;
  for (uint32_t at = 0; at != kNobody; at = symbols[at].next) ids[kept++] = symbols[at].id;
  ids.resize(kept);
}

}  // namespace

MergeTable::MergeTable(size_t pairs) {
  const size_t slots = std::bit_ceil(std::max<size_t>(pairs * 2, 16));
  entries_.resize(slots);
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = key_of(left, right);
  size_t i = slot_of(key);
  while (entries_[i].key != kEmpty && entries_[i].key != key) i = (i + 1) & mask_;
  entries_[i] = {key, merge};
}

void merge_all(const MergeTable& merges, std::vector<int32_t>& ids, MergeScratch& scratch) {
  if (ids.size() < 2) return;
  if (ids.size() <= kShort) {
    merge_short(merges, ids);
  } else {
    merge_long(merges, ids, scratch);
  }
}

}  // namespace athanor::data::hf
