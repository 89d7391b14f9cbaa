// Context: what every op takes first — the team of threads, the scratch arena and the chosen kernels.
#pragma once

#include <string>

#include "base/arena.h"
#include "base/dtype.h"
#include "base/threads.h"

namespace athanor::ops {

class Trace;

/// Kernel families, slowest first. kReference is the plain twin that tests compare with; kPortable is Highway's best
/// target short of the families after it (NEON, SSE4 or SSSE3).
enum class Isa : uint8_t { kReference, kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx };

std::string_view name_of(Isa isa);
/// The fastest family this CPU and kernel allow (AMX needs arch_prctl's permission, asked for here once), or the one
/// that ATHANOR_ISA names; a name that is unknown or that this CPU lacks throws kUsage.
Isa detected_isa();

/// How numbers are held (DESIGN §2). fp64 is for finite differences in tests.
enum class Precision : uint8_t { kFp64, kFp32, kBf16 };

std::string_view name_of(Precision precision);
/// dtype of master weights, gradients, optimizer state, the residual stream, norms and softmaxes ("real" in ops' comments).
constexpr DType real_dtype(Precision p) {
  return p == Precision::kFp64 ? DType::kF64 : DType::kF32;
}
/// dtype of what enters matrix products ("act" in ops' comments): f64, f32 or bf16.
constexpr DType act_dtype(Precision p) {
  return p == Precision::kBf16 ? DType::kBF16 : real_dtype(p);
}

/// Conventions of all ops:
///  * Tensors are written in full unless the comment says "accumulates into".
///  * "real" tensors are all f32 or all f64; "act" tensors are bf16, f32 or f64. f64 always runs the reference kernel.
///  * Shapes that do not fit are bugs of the caller: Error kBug with the op's name.
///  * Scratch is taken from `scratch` and given back before return. While `planning()`, an op takes its scratch (the
///    largest that any data of that shape needs), reads and writes no tensor, and returns.
///  * Results do not depend on the number of threads.
class Context {
 public:
  Context(Threads threads, Arena& scratch, Isa isa = detected_isa())
      : threads_(threads), scratch_(&scratch), isa_(isa) {}

  const Threads& threads() const { return threads_; }
  Arena& scratch() const { return *scratch_; }
  Isa isa() const { return isa_; }
  bool planning() const { return scratch_->planning(); }

  /// Where ops tell what they do and how long it takes (ops/trace.h); null, the default: nowhere.
  Trace* trace() const { return trace_; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  Threads threads_;
  Arena* scratch_;
  Isa isa_;
  Trace* trace_ = nullptr;
};

/// With ATHANOR_VERBOSE=kernels: one line on stderr the first time `op` runs `kernel` for `shape`.
void report_kernel(std::string_view op, std::string_view shape, std::string_view kernel,
                   std::string_view reason);

}  // namespace athanor::ops
