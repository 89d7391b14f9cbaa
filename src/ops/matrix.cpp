#include "ops/matrix.h"

#include <fmt/format.h>

#include <array>

#include "base/log.h"
#include "ops/checks.h"
#include "ops/cpu/matrix_products.h"
#include "ops/cpu/reference/matrix_reference.h"
#include "ops/matrix_internal.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

bool is_real(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }
bool is_act(DType dtype) { return is_real(dtype) || dtype == DType::kBF16; }

/// Throws the bug of an op whose arguments do not fit, naming them.
void fit(bool condition, const char* op, const char* what) {
  if (!condition) throw bug(std::string(op) + ": " + what);
}

/// The fast kernel with which `op` makes a product in `compute` that touches tensors of these
/// dtypes; null: the plain twin does it.
const cpu::MatrixKernel* fast_kernel(const Context& ctx, std::string_view op, DType compute,
                                     std::initializer_list<DType> dtypes) {
  bool wide = compute == DType::kF64;
  for (const DType dtype : dtypes) wide = wide || dtype == DType::kF64;
  if (runs_reference(ctx, op, wide ? DType::kF64 : DType::kF32)) return nullptr;
  return &cpu::matrix_kernel(ctx.isa(), compute);
}

void report(const Context& ctx, std::string_view op, int64_t m, int64_t n, int64_t k,
            const cpu::MatrixKernel* kernel) {
  static const bool reporting = log::verbose("kernels");
  if (!reporting || ctx.planning()) return;
  const std::string shape = fmt::format("{}x{}x{}", m, n, k);
  if (kernel != nullptr) {
    report_kernel(op, shape, kernel->name, kernel->why);
  } else {
    report_kernel(op, shape, "reference",
                  ctx.isa() == Isa::kReference ? "asked for" : "f64 has no fast kernel");
  }
}

void check_compute(DType compute, const char* op) {
  fit(is_act(compute), op, "products are computed in f64, f32 or bf16");
}

/// offsets rise from 0 to at most `rows`; they are data, so they are looked at only when there is
/// some.
void check_offsets(const Context& ctx, std::span<const int64_t> offsets, size_t groups,
                   int64_t rows, const char* op) {
  fit(groups >= 1 && offsets.size() == groups + 1, op, "offsets needs one entry more than groups");
  if (ctx.planning()) return;
  fit(offsets[0] == 0 && offsets.back() <= rows, op, "offsets must run from 0 to at most t");
  for (size_t g = 0; g < groups; ++g) {
    fit(offsets[g] <= offsets[g + 1], op, "offsets must rise");
  }
}

void check_linear(const char* op, const Tensor& x, const PackedMatrix& w, const Tensor& y,
                  const Tensor& bias) {
  fit(!w.empty(), op, "w was never packed");
  fit(x.cols() == w.k && y.cols() == w.n && x.rows() == y.rows(), op,
      "x [t, k], w [n, k] and y [t, n] do not fit");
  fit(is_act(x.dtype()) && is_act(y.dtype()), op, "x and y must be real or bf16");
  fit(bias.empty() || (bias.numel() == w.n && is_real(bias.dtype())), op, "bias must be real [n]");
}

void check_outer(const char* op, DType compute, const Tensor& dy, const Tensor& x, int64_t n,
                 const Tensor& dw) {
  check_compute(compute, op);
  fit(dy.rows() == x.rows() && n == dy.cols() && dw.cols() == x.cols(), op,
      "dy [t, n], x [t, k] and dw [n, k] do not fit");
  fit(is_real(dw.dtype()) && is_act(dy.dtype()) && is_act(x.dtype()), op,
      "dw must be real, dy and x real or bf16");
}

double packed_bytes(const PackedMatrix& w) {
  return static_cast<double>(PackedMatrix::bytes(w.dtype, w.n, w.k));
}

double product_flops(int64_t m, int64_t n, int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

/// Groups that have rows. Only their weights are read, or their gradients written.
int64_t filled(std::span<const int64_t> offsets) {
  int64_t groups = 0;
  for (size_t g = 0; g + 1 < offsets.size(); ++g) groups += offsets[g + 1] > offsets[g] ? 1 : 0;
  return groups;
}

OpWork grouped_linear_work(const Tensor& x, std::span<const int64_t> offsets,
                           std::span<const PackedMatrix> w, const Tensor& y) {
  const int64_t rows = offsets.back();
  return {.shape = {x.rows(), w[0].n, w[0].k, static_cast<int64_t>(w.size())},
          .flops = product_flops(rows, w[0].n, w[0].k),
          .compute = w[0].dtype,
          .bytes = bytes_of({x.slice_rows(0, rows), y.slice_rows(0, rows)}) +
                   static_cast<double>(filled(offsets)) * packed_bytes(w[0])};
}

OpWork grouped_outer_work(DType compute, const Tensor& dy, const Tensor& x,
                          std::span<const int64_t> offsets, const Tensor& dw) {
  const int64_t rows = offsets.back();
  return {.shape = {dw.dim(1), dw.cols(), x.rows(), dw.dim(0)},
          .flops = product_flops(dw.dim(1), dw.cols(), rows),
          .compute = compute,
          .bytes = bytes_of({dy.slice_rows(0, rows), x.slice_rows(0, rows)}) +
                   2.0 * static_cast<double>(filled(offsets)) * bytes_of({dw.at(0)})};
}

/// A symmetric result has half of its elements to compute, and the diagonal.
OpWork matmul_work(DType compute, const Tensor& a, const Tensor& b, const Tensor& z,
                   const Tensor& c, int64_t k, const MatmulOptions& options, bool symmetric) {
  const double full = product_flops(c.rows(), c.cols(), k);
  const auto rows = static_cast<double>(c.rows());
  return {.shape = {c.rows(), c.cols(), k},
          .flops = symmetric ? full * (rows + 1) / (2 * rows) : full,
          .compute = compute,
          .bytes = bytes_of({a, b, c, options.beta == 0 ? Tensor() : z})};
}

void pack_as(Context& ctx, const char* op, const Tensor& w, bool transposed,
             const PackedMatrix& out) {
  const TraceSpan span(ctx, op, [&] {
    return OpWork{.shape = {out.n, out.k}, .bytes = bytes_of({w}) + packed_bytes(out)};
  });
  fit(!out.empty() && is_act(w.dtype()) && (transposed ? w.cols() : w.rows()) == out.n &&
          (transposed ? w.rows() : w.cols()) == out.k,
      op, "w and the packed matrix differ in shape");
  const cpu::MatrixKernel* kernel = fast_kernel(ctx, op, out.dtype, {w.dtype()});
  report(ctx, op, 1, out.n, out.k, kernel);
  if (kernel != nullptr) {
    cpu::pack(ctx, *kernel, w, transposed, out);
  } else if (!ctx.planning()) {
    reference::pack(ctx.threads(), w, transposed, out);
  }
}

}  // namespace

size_t PackedMatrix::bytes(DType dtype, int64_t n, int64_t k) {
  return static_cast<size_t>(cpu::panels_of(n) * cpu::panel_bytes(dtype, k));
}

PackedMatrix PackedMatrix::allocate(Arena& arena, DType dtype, int64_t n, int64_t k) {
  fit(is_act(dtype) && n >= 1 && k >= 1, "PackedMatrix", "needs f64, f32 or bf16 and n, k >= 1");
  return {dtype, n, k, static_cast<std::byte*>(arena.allocate(bytes(dtype, n, k)))};
}

void pack(Context& ctx, const Tensor& w, PackedMatrix& out) { pack_as(ctx, "pack", w, false, out); }

void pack_transposed(Context& ctx, const Tensor& w, PackedMatrix& out) {
  pack_as(ctx, "pack_transposed", w, true, out);
}

void linear(Context& ctx, const Tensor& x, const PackedMatrix& w, const Tensor& y,
            const Tensor& bias) {
  check_linear("linear", x, w, y, bias);
  const TraceSpan span(ctx, "linear", [&] {
    return OpWork{.shape = {x.rows(), w.n, w.k},
                  .flops = product_flops(x.rows(), w.n, w.k),
                  .compute = w.dtype,
                  .bytes = bytes_of({x, y, bias}) + packed_bytes(w)};
  });
  const DType bias_dtype = bias.empty() ? w.dtype : bias.dtype();
  const cpu::MatrixKernel* kernel =
      fast_kernel(ctx, "linear", w.dtype, {x.dtype(), y.dtype(), bias_dtype});
  report(ctx, "linear", x.rows(), w.n, w.k, kernel);
  if (kernel != nullptr) {
    const std::array<int64_t, 2> offsets{0, x.rows()};
    cpu::grouped_linear(ctx, *kernel, x, offsets, std::span(&w, 1), y, bias);
  } else if (!ctx.planning()) {
    reference::linear(ctx.threads(), x, w, y, bias);
  }
}

void grouped_linear(Context& ctx, const Tensor& x, std::span<const int64_t> offsets,
                    std::span<const PackedMatrix> w, const Tensor& y) {
  const char* op = "grouped_linear";
  check_offsets(ctx, offsets, w.size(), x.rows(), op);
  for (const PackedMatrix& group : w) {
    fit(group.dtype == w[0].dtype, op, "all groups' w must have one dtype");
    check_linear(op, x, group, y, {});
  }
  const TraceSpan span(ctx, op, [&] { return grouped_linear_work(x, offsets, w, y); });
  const cpu::MatrixKernel* kernel = fast_kernel(ctx, op, w[0].dtype, {x.dtype(), y.dtype()});
  report(ctx, op, x.rows(), w[0].n, w[0].k, kernel);
  if (kernel != nullptr) {
    cpu::grouped_linear(ctx, *kernel, x, offsets, w, y, {});
    return;
  }
  if (ctx.planning()) return;
  for (size_t g = 0; g < w.size(); ++g) {
    const int64_t rows = offsets[g + 1] - offsets[g];
    reference::linear(ctx.threads(), x.slice_rows(offsets[g], rows), w[g],
                      y.slice_rows(offsets[g], rows), {});
  }
}

void accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                      const Tensor& dw) {
  check_outer("accumulate_outer", compute, dy, x, dw.rows(), dw);
  const TraceSpan span(ctx, "accumulate_outer", [&] {
    return OpWork{.shape = {dw.rows(), dw.cols(), x.rows()},
                  .flops = product_flops(dw.rows(), dw.cols(), x.rows()),
                  .compute = compute,
                  .bytes = bytes_of({dy, x, dw, dw})};
  });
  const cpu::MatrixKernel* kernel =
      fast_kernel(ctx, "accumulate_outer", compute, {dy.dtype(), x.dtype(), dw.dtype()});
  report(ctx, "accumulate_outer", dw.rows(), dw.cols(), x.rows(), kernel);
  if (kernel != nullptr) {
    const std::array<int64_t, 2> offsets{0, x.rows()};
    cpu::grouped_accumulate_outer(ctx, *kernel, dy, x, offsets, 1, dw);
  } else if (!ctx.planning()) {
    reference::accumulate_outer(ctx.threads(), compute, dy, x, dw);
  }
}

void grouped_accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                              std::span<const int64_t> offsets, const Tensor& dw) {
  const char* op = "grouped_accumulate_outer";
  fit(dw.rank() == 3, op, "dw must be [groups, n, k]");
  const int64_t groups = dw.dim(0);
  check_offsets(ctx, offsets, static_cast<size_t>(groups), x.rows(), op);
  check_outer(op, compute, dy, x, dw.dim(1), dw);
  const TraceSpan span(ctx, op, [&] { return grouped_outer_work(compute, dy, x, offsets, dw); });
  const cpu::MatrixKernel* kernel =
      fast_kernel(ctx, op, compute, {dy.dtype(), x.dtype(), dw.dtype()});
  report(ctx, op, dw.dim(1), dw.cols(), x.rows(), kernel);
  if (kernel != nullptr) {
    cpu::grouped_accumulate_outer(ctx, *kernel, dy, x, offsets, groups, dw);
    return;
  }
  if (ctx.planning()) return;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t rows = offsets[g + 1] - offsets[g];
    reference::accumulate_outer(ctx.threads(), compute, dy.slice_rows(offsets[g], rows),
                                x.slice_rows(offsets[g], rows), dw.at(g));
  }
}

void block_accumulate_outer(Context& ctx, DType compute, const Tensor& dy, const Tensor& x,
                            const Tensor& dw) {
  const char* op = "block_accumulate_outer";
  fit(dw.rank() == 3, op, "dw must be [blocks, n, k]");
  const int64_t blocks = dw.dim(0), n = dw.dim(1), k = dw.cols();
  fit(dy.cols() == blocks * n && x.cols() == blocks * k, op, "dy and x must be of whole blocks");
  check_outer(op, compute, dy.columns(0, n), x.columns(0, k), n, dw);
  const TraceSpan span(ctx, op, [&] {
    return OpWork{.shape = {n, k, x.rows(), blocks},
                  .flops = product_flops(blocks * n, k, x.rows()),
                  .compute = compute,
                  .bytes = bytes_of({dy, x, dw, dw})};
  });
  const cpu::MatrixKernel* kernel =
      fast_kernel(ctx, op, compute, {dy.dtype(), x.dtype(), dw.dtype()});
  report(ctx, op, n, k, x.rows(), kernel);
  if (kernel != nullptr) {
    cpu::block_accumulate_outer(ctx, *kernel, dy, x, blocks, dw);
    return;
  }
  if (ctx.planning()) return;
  for (int64_t block = 0; block < blocks; ++block) {
    reference::accumulate_outer(ctx.threads(), compute, dy.columns(block * n, n),
                                x.columns(block * k, k), dw.at(block));
  }
}

void product(Context& ctx, DType compute, const Tensor& a, const Tensor& b, const Tensor& z,
             const Tensor& c, const MatmulOptions& options, bool symmetric) {
  const int64_t k = options.transpose_a ? a.rows() : a.cols();
  check_compute(compute, "matmul");
  fit((options.transpose_a ? a.cols() : a.rows()) == c.rows() &&
          (options.transpose_b ? b.rows() : b.cols()) == c.cols() &&
          (options.transpose_b ? b.cols() : b.rows()) == k,
      "matmul", "op(A) [m, k], op(B) [k, n] and C [m, n] do not fit");
  fit(is_act(a.dtype()) && is_act(b.dtype()) && is_real(c.dtype()), "matmul",
      "A and B must be real or bf16, C real");
  const TraceSpan span(ctx, "matmul",
                       [&] { return matmul_work(compute, a, b, z, c, k, options, symmetric); });
  const cpu::MatrixKernel* kernel =
      fast_kernel(ctx, "matmul", compute, {a.dtype(), b.dtype(), c.dtype()});
  report(ctx, "matmul", c.rows(), c.cols(), k, kernel);
  if (kernel != nullptr) {
    cpu::matmul(ctx, *kernel, a, b, z, c, options, symmetric);
  } else if (!ctx.planning()) {
    reference::matmul(ctx.threads(), compute, a, b, z, c, options);
  }
}

void matmul(Context& ctx, DType compute, const Tensor& a, const Tensor& b, const Tensor& c,
            const MatmulOptions& options) {
  product(ctx, compute, a, b, c, c, options, false);
}

}  // namespace athanor::ops
