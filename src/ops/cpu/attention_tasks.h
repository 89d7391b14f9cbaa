// How attention is cut into tasks: blocks of rows of every segment and key head, in one numbered list.
#pragma once

#include <cstdint>

#include "ops/context.h"
#include "ops/cpu/attention.h"

namespace athanor::ops::cpu {

/// Numbers the blocks of segments 0, 1, …; segment s has `blocks(s)`.
class BlockList {
 public:
  /// Takes scratch for at most `limit` segments that have blocks.
  BlockList(Arena& scratch, int64_t limit);
  /// Adds `blocks` blocks of `segment`; segments without any are left out.
  void add(int64_t segment, int64_t blocks);
  int64_t size() const { return count_ == 0 ? 0 : ends_[count_ - 1]; }

  struct Place {
    int64_t segment, block;
  };
  Place operator[](int64_t task) const;

 private:
  int64_t* segments_;
  int64_t* ends_;
  int64_t count_ = 0;
};

}  // namespace athanor::ops::cpu
