#include "ops/cpu/matrix_driver.h"

#include <algorithm>

namespace athanor::ops::cpu {
namespace {

constexpr int64_t kSmallestRows = 16;
constexpr int64_t kSmallestColumns = 32;
/// So that a thread that was held up holds up the others little.
constexpr int64_t kTasksPerThread = 4;

int64_t blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

struct BlockShape {
  int64_t rows;
  int64_t columns;
  int64_t count(const MatrixBlock& p) const {
    return blocks(p.rows, rows) * blocks(p.columns, columns);
  }
};

/// The kernel's block, halved until all threads have work.
BlockShape block_shape(const MatrixKernel& kernel, std::span<const MatrixBlock> products,
                       int threads, bool lower_triangle) {
  BlockShape shape{kernel.row_block, kernel.column_block};
  // Smaller along the diagonal, where half of a block is wasted; 96 columns are whole tiles of every family.
  if (lower_triangle) shape = {64, 96};
  if (threads == 1) return shape;
  int64_t tallest = 0;
  for (const MatrixBlock& p : products) tallest = std::max(tallest, p.rows);
  for (;;) {
    int64_t tasks = 0;
    for (const MatrixBlock& p : products) tasks += shape.count(p);
    if (tasks >= threads * kTasksPerThread) return shape;
    if (shape.rows > kSmallestRows && shape.rows * 2 > shape.columns && tallest * 2 > shape.rows) {
      shape.rows = std::max(kSmallestRows, shape.rows / 2);
    } else if (shape.columns > kSmallestColumns) {
      shape.columns = std::max(kSmallestColumns, shape.columns / 2);
    } else {
      return shape;
    }
  }
}

size_t scratch_stride(const MatrixKernel& kernel, int64_t rows, int64_t columns, int64_t lines) {
  const size_t bytes = kernel.scratch_bytes(std::min(rows, kernel.row_block),
                                            std::min(columns, kernel.column_block), lines);
  return (bytes + 63) / 64 * 64;
}

/// The part of `product` that starts at (row, column) and is at most `shape`.
MatrixBlock part_of(const MatrixBlock& product, int64_t row, int64_t column, BlockShape shape) {
  MatrixBlock part = product;
  part.rows = std::min(shape.rows, product.rows - row);
  part.columns = std::min(shape.columns, product.columns - column);
  part.a += product.a_panels ? row / kPanelColumns * product.a_stride : row * product.a_stride;
  part.b += column / kPanelColumns * product.b_stride;
  part.y += (row * product.y_stride + column) * static_cast<int64_t>(size_of(product.y_dtype));
  if (part.bias != nullptr) part.bias += column;
  if (part.z != nullptr) part.z += row * product.z_stride + column;
  return part;
}

}  // namespace

std::byte* product_scratch(const Context& ctx, const MatrixKernel& kernel, int64_t rows,
                           int64_t columns, int64_t lines) {
  const size_t stride = scratch_stride(kernel, rows, columns, lines);
  return static_cast<std::byte*>(
      ctx.scratch().allocate(stride * static_cast<size_t>(ctx.threads().count())));
}

void run_products(const Context& ctx, const MatrixKernel& kernel,
                  std::span<const MatrixBlock> products, std::byte* scratch, bool lower_triangle) {
  const BlockShape shape = block_shape(kernel, products, ctx.threads().count(), lower_triangle);
  int64_t tasks = 0;
  size_t stride = 0;
  for (const MatrixBlock& p : products) {
    tasks += shape.count(p);
    stride = std::max(stride, scratch_stride(kernel, p.rows, p.columns, p.lines));
  }
  ctx.threads().run(tasks, [&](int64_t task, int thread) {
    const MatrixBlock* product = products.data();
    while (task >= shape.count(*product)) task -= shape.count(*product++);
    const int64_t across = blocks(product->columns, shape.columns);
    const int64_t row = task / across * shape.rows;
    const int64_t column = task % across * shape.columns;
    if (lower_triangle && column >= row + shape.rows) return;
    MatrixBlock part = part_of(*product, row, column, shape);
    part.scratch = scratch + static_cast<size_t>(thread) * stride;
    kernel.multiply(part);
  });
}

PackJob pack_job(const Tensor& from, bool transposed, std::byte* to, int64_t to_stride) {
  return {{.from = from.data(),
           .from_dtype = from.dtype(),
           .from_stride = from.row_stride(),
           .rows = from.rows(),
           .columns = from.cols(),
           .to = to,
           .to_stride = to_stride},
          transposed};
}

void run_packs(const Context& ctx, const MatrixKernel& kernel, std::span<const PackJob> jobs) {
  // A task owns a whole panel (rows), or a run of depth, even as a line may hold a pair, through
  // all panels (columns).
  const auto step = [](const PackJob& job) { return job.transposed ? int64_t{32} : kPanelColumns; };
  const auto count = [&](const PackJob& job) { return blocks(job.block.rows, step(job)); };
  int64_t tasks = 0;
  for (const PackJob& job : jobs) tasks += count(job);
  ctx.threads().run(tasks, [&](int64_t task, int) {
    const PackJob* job = jobs.data();
    while (task >= count(*job)) task -= count(*job++);
    PackBlock block = job->block;
    const int64_t row = task * step(*job);
    block.from += row * block.from_stride * static_cast<int64_t>(size_of(block.from_dtype));
    block.rows = std::min(step(*job), block.rows - row);
    if (job->transposed) {
      block.to += row * kPanelColumns * static_cast<int64_t>(size_of(kernel.compute));
      kernel.pack_columns(block);
    } else {
      block.to += task * block.to_stride;
      kernel.pack_rows(block);
    }
  });
}

void convert_rows(const Context& ctx, const MatrixKernel& kernel, const Tensor& from, std::byte* to,
                  int64_t to_stride) {
  const auto element = static_cast<int64_t>(size_of(from.dtype()));
  const auto padded = to_stride / static_cast<int64_t>(size_of(kernel.compute));
  constexpr int64_t kStep = 16;
  ctx.threads().run(blocks(from.rows(), kStep), [&](int64_t task, int) {
    for (int64_t row = task * kStep; row < std::min(from.rows(), (task + 1) * kStep); ++row) {
      kernel.convert_row(from.data() + row * from.row_stride() * element, from.dtype(),
                         to + row * to_stride, from.cols(), padded);
    }
  });
}

}  // namespace athanor::ops::cpu
