// What each op of a repeated piece of work (a training step, a token) took, and how near its bound
// that is.
#pragma once

#include <string>
#include <vector>

#include "advisor/ceilings.h"
#include "ops/trace.h"

namespace athanor::advisor {

/// One repetition: how long it took as a whole, what its ops did, and the ceilings at that time.
struct TracedRun {
  double seconds = 0;
  std::vector<ops::TraceEntry> entries;
  Ceilings ceilings;
};

/// The repetitions of the middle half by time (of three the median alone). Means over them add up as
/// medians would not, and one disturbed repetition moves nothing.
std::vector<TracedRun> middle_runs(std::vector<TracedRun> runs);

/// All calls of an op with one shape, as means of one repetition.
struct OpFigures {
  std::string part, op, shape;
  double calls = 0;
  double seconds = 0;
  double share = 0;  ///< of the repetition's time
  double flops = 0;
  double bytes = 0;
  /// What bounds it: "bf16" or "fp32", the rate of those products, or "memory", whichever takes
  /// longer at its ceiling.
  std::string bound;
  double bound_seconds = 0;  ///< what it would take at that ceiling
  /// Share of the bound reached. Above 1 where an op's operands came from a cache.
  double reached() const { return seconds > 0 ? bound_seconds / seconds : 0; }
};

struct OpTable {
  std::vector<OpFigures> ops;  ///< the longest first
  double seconds = 0;          ///< of a repetition
  double outside_seconds = 0;  ///< of it, what no op accounts for
};

/// Of at least one run: all of them count, so hand in what middle_runs leaves.
OpTable tabulate(const std::vector<TracedRun>& runs);

/// The table for a person. Ops below 0.2 % of the time are summed in one line.
std::string to_text(const OpTable& table, const std::string& what);

}  // namespace athanor::advisor
