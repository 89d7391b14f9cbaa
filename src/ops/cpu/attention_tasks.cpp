#include "ops/cpu/attention_tasks.h"

#include <algorithm>

namespace athanor::ops::cpu {

BlockList::BlockList(Arena& scratch, int64_t limit)
    : segments_(scratch.tensor(DType::kI64, {limit}).as<int64_t>()),
      ends_(scratch.tensor(DType::kI64, {limit}).as<int64_t>()) {}

void BlockList::add(int64_t segment, int64_t blocks) {
  if (blocks == 0) return;
  const int64_t before = size();
  segments_[count_] = segment;
  ends_[count_++] = before + blocks;
}

BlockList::Place BlockList::operator[](int64_t task) const {
  const int64_t i = std::upper_bound(ends_, ends_ + count_, task) - ends_;
  return {segments_[i], task - (i == 0 ? 0 : ends_[i - 1])};
}

}  // namespace athanor::ops::cpu
