#include "ops/cpu/matrix_products.h"

#include <algorithm>
#include <array>

#include "ops/cpu/matrix_driver.h"

namespace athanor::ops::cpu {
namespace {

/// Rows that are converted at a time where x has another dtype than the product: bounds the
/// scratch.
constexpr int64_t kConvertRows = 2048;
/// Tokens of one sum of weight gradients, and tokens packed at a time: enough for the sums' traffic
/// to be small beside their products, few enough to bound the scratch. A group's sums are cut at
/// multiples of the former.
constexpr int64_t kOuterTokens = 1024;
/// Rows of dw computed at a time (a vocabulary has many).
constexpr int64_t kOuterRows = 8192;

std::byte* bytes_from(const Context& ctx, int64_t bytes) {
  return static_cast<std::byte*>(ctx.scratch().allocate(static_cast<size_t>(bytes)));
}

template <class T>
std::span<T> array_from(const Context& ctx, int64_t count) {
  auto* data = static_cast<T*>(ctx.scratch().allocate(sizeof(T) * static_cast<size_t>(count)));
  return {data, static_cast<size_t>(count)};
}

int64_t stride_bytes(const Tensor& t) {
  return t.row_stride() * static_cast<int64_t>(size_of(t.dtype()));
}

/// A pair of bf16 is read whole, so an odd depth is copied and padded, as is another dtype.
bool readable_as_it_lies(const MatrixKernel& kernel, const Tensor& a) {
  return a.dtype() == kernel.compute && (kernel.compute == DType::kF32 || a.cols() % 2 == 0);
}

/// Makes the product add beta · z.
void add_to(MatrixBlock& product, float beta, const Tensor& z) {
  product.beta = beta;
  product.z = z.as<float>();
  product.z_stride = z.row_stride();
}

}  // namespace

void pack(const Context& ctx, const MatrixKernel& kernel, const Tensor& w, bool transposed,
          const PackedMatrix& out) {
  if (ctx.planning()) return;
  const std::array job{pack_job(w, transposed, out.data, panel_bytes(out.dtype, out.k))};
  run_packs(ctx, kernel, job);
}

void grouped_linear(const Context& ctx, const MatrixKernel& kernel, const Tensor& x,
                    std::span<const int64_t> offsets, std::span<const PackedMatrix> w,
                    const Tensor& y, const Tensor& bias) {
  const int64_t n = w[0].n;
  const int64_t k = w[0].k;
  const int64_t lines = lines_of(kernel.compute, k);
  const bool direct = readable_as_it_lies(kernel, x);
  const int64_t row_bytes = direct ? stride_bytes(x) : lines * 4;
  const ArenaScope scope(ctx.scratch());
  const auto products = array_from<MatrixBlock>(ctx, static_cast<int64_t>(w.size()));
  std::byte* converted =
      direct ? nullptr : bytes_from(ctx, std::min(x.rows(), kConvertRows) * row_bytes);
  std::byte* scratch = product_scratch(ctx, kernel, x.rows(), n, lines);
  if (ctx.planning()) return;

  const int64_t end = offsets.back();
  const int64_t step = direct ? std::max<int64_t>(end, 1) : kConvertRows;
  size_t group = 0;
  for (int64_t begin = 0; begin < end; begin += step) {
    const int64_t stop = std::min(end, begin + step);
    if (!direct) convert_rows(ctx, kernel, x.slice_rows(begin, stop - begin), converted, row_bytes);
    size_t count = 0;
    while (group < w.size() && offsets[group] < stop) {
      const int64_t first = std::max(begin, offsets[group]);
      const int64_t last = std::min(stop, offsets[group + 1]);
      if (last > first) {
        products[count++] = {
            .a = direct ? x.data() + first * row_bytes : converted + (first - begin) * row_bytes,
            .a_stride = row_bytes,
            .b = w[group].data,
            .b_stride = panel_bytes(kernel.compute, k),
            .rows = last - first,
            .columns = n,
            .lines = lines,
            .y = y.data() + first * stride_bytes(y),
            .y_dtype = y.dtype(),
            .y_stride = y.row_stride(),
            .bias = bias.empty() ? nullptr : bias.as<float>()};
      }
      if (offsets[group + 1] > stop) break;  // the rest of this group is the next step's
      ++group;
    }
    run_products(ctx, kernel, products.first(count), scratch);
  }
}

namespace {

/// Tokens [begin, begin + count) of one group: one sum.
struct Piece {
  int64_t group;
  int64_t begin;
  int64_t count;
};

/// Cuts groups into pieces and hands them out in waves of kOuterTokens. No group is twice in a wave, where its sums would
/// meet in dw: a piece that is not its group's last fills a wave alone.
class Waves {
 public:
  explicit Waves(std::span<const int64_t> offsets) : offsets_(offsets), next_(offsets[0]) {}

  size_t fill(std::span<Piece> pieces) {
    size_t count = 0;
    int64_t tokens = 0;
    while (group_ + 1 < offsets_.size()) {
      if (next_ == offsets_[group_ + 1]) {
        ++group_;
        continue;
      }
      const int64_t size = std::min(kOuterTokens, offsets_[group_ + 1] - next_);
      if (tokens + size + size % 2 > kOuterTokens) break;
      pieces[count++] = {static_cast<int64_t>(group_), next_, size};
      tokens += size + size % 2;
      next_ += size;
    }
    return count;
  }

 private:
  std::span<const int64_t> offsets_;
  size_t group_ = 0;
  int64_t next_;
};

/// Bytes from panel to panel of packed tokens. One line more than they fill: at a power of two all panels of a factor
/// would meet in the same few sets of a cache.
int64_t outer_stride(DType compute, int64_t tokens) {
  return panel_bytes(compute, tokens) + kLineBytes;
}

/// dw += the sum over packed tokens.
MatrixBlock outer_product(const MatrixKernel& kernel, const std::byte* a, const std::byte* b,
                          int64_t tokens, const Tensor& dw) {
  const int64_t stride = outer_stride(kernel.compute, tokens);
  MatrixBlock product{.a = a,
                      .a_stride = stride,
                      .a_panels = true,
                      .b = b,
                      .b_stride = stride,
                      .rows = dw.rows(),
                      .columns = dw.cols(),
                      .lines = lines_of(kernel.compute, tokens),
                      .y = dw.data(),
                      .y_dtype = dw.dtype(),
                      .y_stride = dw.row_stride()};
  add_to(product, 1.0F, dw);
  return product;
}

}  // namespace

void grouped_accumulate_outer(const Context& ctx, const MatrixKernel& kernel, const Tensor& dy,
                              const Tensor& x, std::span<const int64_t> offsets, int64_t groups,
                              const Tensor& dw) {
  const int64_t n = dy.cols();
  const int64_t k = x.cols();
  const int64_t block_rows = std::min(n, kOuterRows * ctx.threads().count());
  const int64_t most_pieces = std::min(groups, dy.rows());
  // Every piece is padded by at most one token.
  const int64_t tokens = std::min(kOuterTokens, dy.rows() + most_pieces);
  const int64_t panel_space =
      outer_stride(kernel.compute, tokens) + most_pieces * outer_stride(kernel.compute, 0);
  const int64_t longest = std::min(kOuterTokens, dy.rows());
  const ArenaScope scope(ctx.scratch());
  const auto pieces = array_from<Piece>(ctx, most_pieces);
  const auto products = array_from<MatrixBlock>(ctx, most_pieces);
  const auto jobs = array_from<PackJob>(ctx, 2 * most_pieces);
  std::byte* const left = bytes_from(ctx, panels_of(block_rows) * panel_space);
  std::byte* const right = bytes_from(ctx, panels_of(k) * panel_space);
  std::byte* scratch =
      product_scratch(ctx, kernel, block_rows, k, lines_of(kernel.compute, longest));
  if (ctx.planning()) return;

  Waves waves(offsets);
  for (size_t count = waves.fill(pieces); count > 0; count = waves.fill(pieces)) {
    for (int64_t row = 0; row < n; row += block_rows) {
      const int64_t rows = std::min(block_rows, n - row);
      std::byte* a = left;
      std::byte* b = right;
      for (size_t i = 0; i < count; ++i) {
        const Piece& piece = pieces[i];
        const int64_t stride = outer_stride(kernel.compute, piece.count);
        jobs[i] =
            pack_job(dy.slice_rows(piece.begin, piece.count).columns(row, rows), true, a, stride);
        jobs[count + i] = pack_job(x.slice_rows(piece.begin, piece.count), true, b, stride);
        products[i] =
            outer_product(kernel, a, b, piece.count, dw.slice_rows(piece.group * n + row, rows));
        a += panels_of(rows) * stride;
        b += panels_of(k) * stride;
      }
      run_packs(ctx, kernel, jobs.first(row == 0 ? 2 * count : count));
      run_products(ctx, kernel, products.first(count), scratch);
    }
  }
}

void block_accumulate_outer(const Context& ctx, const MatrixKernel& kernel, const Tensor& dy,
                            const Tensor& x, int64_t blocks, const Tensor& dw) {
  const int64_t n = dy.cols() / blocks, k = x.cols() / blocks;
  const int64_t longest = std::min(kOuterTokens, dy.rows());
  const int64_t panel_space = outer_stride(kernel.compute, longest);
  const ArenaScope scope(ctx.scratch());
  const auto products = array_from<MatrixBlock>(ctx, blocks);
  const auto jobs = array_from<PackJob>(ctx, 2 * blocks);
  std::byte* const left = bytes_from(ctx, blocks * panels_of(n) * panel_space);
  std::byte* const right = bytes_from(ctx, blocks * panels_of(k) * panel_space);
  std::byte* scratch = product_scratch(ctx, kernel, n, k, lines_of(kernel.compute, longest));
  if (ctx.planning()) return;

  for (int64_t begin = 0; begin < dy.rows(); begin += kOuterTokens) {
    const int64_t tokens = std::min(kOuterTokens, dy.rows() - begin);
    const int64_t stride = outer_stride(kernel.compute, tokens);
    const Tensor left_rows = dy.slice_rows(begin, tokens), right_rows = x.slice_rows(begin, tokens);
    for (int64_t block = 0; block < blocks; ++block) {
      std::byte* const a = left + block * panels_of(n) * stride;
      std::byte* const b = right + block * panels_of(k) * stride;
      jobs[2 * block] = pack_job(left_rows.columns(block * n, n), true, a, stride);
      jobs[2 * block + 1] = pack_job(right_rows.columns(block * k, k), true, b, stride);
      products[block] = outer_product(kernel, a, b, tokens, dw.slice_rows(block * n, n));
    }
    run_packs(ctx, kernel, jobs);
    run_products(ctx, kernel, products, scratch);
  }
}

namespace {

/// Copies the lower triangle of square c to the upper one.
void mirror(const Context& ctx, const Tensor& c) {
  constexpr int64_t kBlock = 32;
  const int64_t n = c.rows();
  ctx.threads().run((n + kBlock - 1) / kBlock, [&](int64_t task, int) {
    for (int64_t column = task * kBlock; column < n; column += kBlock) {
      for (int64_t i = task * kBlock; i < std::min(n, (task + 1) * kBlock); ++i) {
        float* row = c.row<float>(i);
        for (int64_t j = std::max(column, i + 1); j < std::min(n, column + kBlock); ++j) {
          row[j] = c.row<float>(j)[i];
        }
      }
    }
  });
}

}  // namespace

void matmul(const Context& ctx, const MatrixKernel& kernel, const Tensor& a, const Tensor& b,
            const Tensor& z, const Tensor& c, const MatmulOptions& options, bool symmetric) {
  const int64_t m = c.rows();
  const int64_t n = c.cols();
  const int64_t k = options.transpose_a ? a.rows() : a.cols();
  const int64_t lines = lines_of(kernel.compute, k);
  const int64_t panel = panel_bytes(kernel.compute, k);
  const bool direct = !options.transpose_a && readable_as_it_lies(kernel, a);
  const ArenaScope scope(ctx.scratch());
  std::byte* right = bytes_from(ctx, panels_of(n) * panel);
  std::byte* left = nullptr;
  if (options.transpose_a) {
    left = bytes_from(ctx, panels_of(m) * panel);
  } else if (!direct) {
    left = bytes_from(ctx, m * lines * 4);
  }
  std::byte* scratch = product_scratch(ctx, kernel, m, n, lines);
  if (ctx.planning()) return;

  const std::array jobs{pack_job(b, !options.transpose_b, right, panel),
                        pack_job(a, true, left, panel)};
  run_packs(ctx, kernel, std::span(jobs).first(options.transpose_a ? 2 : 1));
  MatrixBlock product{.a = left,
                      .a_stride = panel,
                      .a_panels = options.transpose_a,
                      .b = right,
                      .b_stride = panel,
                      .rows = m,
                      .columns = n,
                      .lines = lines,
                      .y = c.data(),
                      .y_dtype = c.dtype(),
                      .y_stride = c.row_stride(),
                      .alpha = static_cast<float>(options.alpha)};
  if (options.beta != 0.0) add_to(product, static_cast<float>(options.beta), z);
  if (!options.transpose_a) {
    product.a = direct ? a.data() : left;
    product.a_stride = direct ? stride_bytes(a) : lines * 4;
    if (!direct) convert_rows(ctx, kernel, a, left, lines * 4);
  }
  run_products(ctx, kernel, std::span(&product, 1), scratch, symmetric);
  if (symmetric) mirror(ctx, c);
}

}  // namespace athanor::ops::cpu
