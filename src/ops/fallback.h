// Where a slower kernel runs than this machine or this op has: nobody shall find that out from the
// speed alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace athanor::ops {

/// `op` ("all ops" where the whole family of kernels is meant) runs `kernel`, because of `reason`.
struct Fallback {
  std::string op;
  std::string kernel;
  std::string reason;
};

/// Warns on stderr and remembers, the first time that this process falls back so; later calls cost a look.
void fall_back(std::string_view op, std::string_view kernel, std::string_view reason);

/// All of this process so far, oldest first.
std::vector<Fallback> fallbacks();
/// Their number: whether there are new ones is asked once a step.
size_t fallback_count();

}  // namespace athanor::ops
