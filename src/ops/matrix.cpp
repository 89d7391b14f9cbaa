#include "ops/matrix.h"

#include <string>

#include "base/log.h"
#include "ops/cpu/reference/matrix_reference.h"

namespace athanor::ops {
namespace {

bool is_real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }
bool is_act(DType dtype) { return is_real(dtype) || dtype == DType::kBF16; }

/// Throws the bug of an op whose arguments do not fit, naming them.
void fit(bool condition, const char* op, const char* what) {
  if (!condition) throw bug(std::string(op) + ": " + what);
}

}  // namespace

size_t PackedMatrix::bytes(DType dtype, int64_t n, int64_t k) {
  const int64_t columns = (n + 15) / 16 * 16;
  const int64_t depth = (k + 1) / 2 * 2;
  return static_cast<size_t>(columns * depth) * size_of(dtype);
}

PackedMatrix PackedMatrix::allocate(Arena& arena, DType dtype, int64_t n, int64_t k) {
  fit(is_act(dtype) && n >= 1 && k >= 1, "PackedMatrix", "needs f64, f32 or bf16 and n, k >= 1");
  return {dtype, n, k, static_cast<std::byte*>(arena.allocate(bytes(dtype, n, k)))};
}

void pack(Context& ctx, const Tensor& w, PackedMatrix& out) {
  fit(!out.empty() && w.rows() == out.n && w.cols() == out.k && is_act(w.dtype()), "pack",
      "w does not have the packed matrix's shape [n, k]");
  if (ctx.planning()) return;
  reference::pack(ctx.threads(), w, false, out);
}

void pack_transposed(Context& ctx, const Tensor& w, PackedMatrix& out) {
  fit(!out.empty() && w.rows() == out.k && w.cols() == out.n && is_act(w.dtype()),
      "pack_transposed", "w does not have the packed matrix's shape [k, n]");
  if (ctx.planning()) return;
  reference::pack(ctx.threads(), w, true, out);
}

void linear(Context& ctx, const Tensor& x, const PackedMatrix& w, const Tensor& y,
            const LinearOptions& options) {
  fit(x.cols() == w.k && y.cols() == w.n && x.rows() == y.rows(), "linear",
      "x [t, k], w [n, k] and y [t, n] do not fit");
  fit(is_act(x.dtype()) && is_act(y.dtype()), "linear", "x and y must be real or bf16");
  fit(options.bias.empty() || (options.bias.numel() == w.n && is_real(options.bias.dtype())),
      "linear", "bias must be real [n]");
  fit(!options.accumulate || is_real(y.dtype()), "linear", "accumulation needs a real y");
  if (ctx.planning()) return;
  reference::linear(ctx.threads(), x, w, y, options);
}

void accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                      const Tensor& dw) {
  fit(dy.rows() == x.rows() && dw.rows() == dy.cols() && dw.cols() == x.cols(), "accumulate_outer",
      "dy [t, n], x [t, k] and dw [n, k] do not fit");
  fit(is_real(dw.dtype()) && is_act(dy.dtype()) && is_act(x.dtype()), "accumulate_outer",
      "dw must be real, dy and x real or bf16");
  if (ctx.planning()) return;
  reference::accumulate_outer(ctx.threads(), compute, dy, x, dw);
}

void grouped_linear(Context& ctx, const Tensor& x, std::span<const int64_t> offsets,
                    std::span<const PackedMatrix> w, const Tensor& y, bool accumulate) {
  fit(offsets.size() == w.size() + 1, "grouped_linear", "offsets needs one entry more than groups");
  if (ctx.planning()) return;
  for (size_t g = 0; g < w.size(); ++g) {
    const int64_t rows = offsets[g + 1] - offsets[g];
    if (rows == 0) continue;
    reference::linear(ctx.threads(), x.slice_rows(offsets[g], rows), w[g],
                      y.slice_rows(offsets[g], rows), {.bias = {}, .accumulate = accumulate});
  }
}

void grouped_accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                              std::span<const int64_t> offsets, const Tensor& dw) {
  fit(static_cast<int64_t>(offsets.size()) == dw.dim(0) + 1, "grouped_accumulate_outer",
      "offsets needs one entry more than groups");
  if (ctx.planning()) return;
  for (int64_t g = 0; g < dw.dim(0); ++g) {
    const int64_t rows = offsets[g + 1] - offsets[g];
    if (rows == 0) continue;
    reference::accumulate_outer(ctx.threads(), compute, dy.slice_rows(offsets[g], rows),
                                x.slice_rows(offsets[g], rows), dw.at(g));
  }
}

void matmul(Context& ctx, DType compute, const Tensor& a, const Tensor& b, const Tensor& c,
            const MatmulOptions& options) {
  const int64_t depth = options.transpose_a ? a.rows() : a.cols();
  fit((options.transpose_a ? a.cols() : a.rows()) == c.rows() &&
          (options.transpose_b ? b.rows() : b.cols()) == c.cols() &&
          (options.transpose_b ? b.cols() : b.rows()) == depth,
      "matmul", "op(A) [m, k], op(B) [k, n] and C [m, n] do not fit");
  if (ctx.planning()) return;
  reference::matmul(ctx.threads(), compute, a, b, c, options);
}

}  // namespace athanor::ops
