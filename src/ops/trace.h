// What the ops of a run do and how long they take. Whoever wants to know hangs a Trace into the
// Context (ops/context.h); without one a call costs a branch.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ops/context.h"

namespace athanor::ops {

/// Sizes that tell calls of one op apart, the op's own order; zeros at the end are dimensions that
/// it does not have.
using OpShape = std::array<int64_t, 4>;

/// The least that a call has to do, whatever kernel does it.
struct OpWork {
  OpShape shape{};
  double flops = 0;  ///< of matrix products and attention alone, a multiply-add being two
  DType compute = DType::kF32;  ///< of those products' factors
  double bytes = 0;             ///< every operand read once, every result written once
};

/// The work of an op that only passes over `operands`; one that is read and written is named twice.
/// Its shape is that of `shape_of`, a vector or a matrix.
OpWork moves(const Tensor& shape_of, std::initializer_list<Tensor> operands);
/// The bytes of all `operands`; an empty one has none.
double bytes_of(std::initializer_list<Tensor> operands);

/// All calls of one op with one shape in one part of the model.
struct TraceEntry {
  std::string_view part;
  std::string_view op;
  OpShape shape{};
  int64_t calls = 0;
  double seconds = 0;
  double bf16_flops = 0;
  double f32_flops = 0;
  double f64_flops = 0;
  double bytes = 0;

  double flops() const { return bf16_flops + f32_flops + f64_flops; }
};

/// "4096x512x1024"; empty for a shape without dimensions.
std::string to_text(const OpShape& shape);

/// Collects the spans that one thread opens: the one that calls the ops. Where spans nest, the
/// outermost one has the time and its own bytes; the FLOPs of those inside are added to its own. So
/// every second is counted once, and an op made of others declares no FLOPs itself.
class Trace {
 public:
  const std::vector<TraceEntry>& entries() const { return entries_; }
  /// Time inside spans.
  double seconds() const;
  /// Forgets all entries.
  void clear();

  // For TraceSpan and PartScope, below.
  void open(std::string_view op, const OpWork& work);
  void close();
  std::string_view exchange_part(std::string_view part);

 private:
  using Key = std::tuple<std::string_view, std::string_view, OpShape>;
  std::string_view part_ = "";
  int depth_ = 0;
  TraceEntry* current_ = nullptr;  ///< of the outermost open span
  std::chrono::steady_clock::time_point start_;
  std::vector<TraceEntry> entries_;
  std::map<Key, size_t> places_;
};

/// One call of an op, from construction to the end of the scope. `op` is a literal: entries keep
/// the view. `describe` returns its OpWork and is asked only when there is a trace and ctx does not
/// merely plan.
class TraceSpan {
 public:
  template <class Describe>
  TraceSpan(const Context& ctx, std::string_view op, const Describe& describe)
      : trace_(ctx.trace()) {
    if (trace_ == nullptr) return;
    if (ctx.planning()) {
      trace_ = nullptr;
    } else {
      trace_->open(op, describe());
    }
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->close();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* trace_;
};

/// Spans that open in this scope belong to `part` (a literal); afterwards to what they did before.
class PartScope {
 public:
  PartScope(const Context& ctx, std::string_view part) : trace_(ctx.trace()) {
    if (trace_ != nullptr) before_ = trace_->exchange_part(part);
  }
  ~PartScope() {
    if (trace_ != nullptr) trace_->exchange_part(before_);
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

 private:
  Trace* trace_;
  std::string_view before_;
};

}  // namespace athanor::ops
