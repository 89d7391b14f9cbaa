#include "ops/embedding.h"

#include <fmt/format.h>

#include "ops/checks.h"
#include "ops/cpu/reference/embedding.h"
#include "ops/cpu/routing.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

void check_ids(std::string_view op, const Tensor& ids, int64_t vocabulary) {
  const int32_t* id = ids.as<int32_t>();
  for (int64_t t = 0; t < ids.numel(); ++t) {
    if (id[t] < 0 || id[t] >= vocabulary) {
      throw bug(fmt::format("{}: token {} has id {}, outside [0, {})", op, t, id[t], vocabulary));
    }
  }
}

}  // namespace

void embedding(Context& ctx, const Tensor& table, const Tensor& ids, const Tensor& out) {
  const TraceSpan span(ctx, "embedding", [&] { return moves(out, {ids, out, out}); });
  const Checks check("embedding", table);
  check.real("table", table, table.rows(), table.cols());
  check.index_vector("ids", ids, out.rows());
  check.real("out", out, ids.numel(), table.cols());
  if (ctx.planning()) return;
  check_ids("embedding", ids, table.rows());
  if (runs_reference(ctx, check)) {
    reference::embedding(table, ids, out);
  } else {
    cpu::gather_rows(ctx, table, ids.as<int32_t>(), ids.numel(), out);
  }
}

void embedding_backward(Context& ctx, const Tensor& dout, const Tensor& ids, const Tensor& dtable) {
  const TraceSpan span(ctx, "embedding_backward",
                       [&] { return moves(dout, {ids, dout, dout, dout}); });
  const Checks check("embedding_backward", dtable);
  check.real("dtable", dtable, dtable.rows(), dtable.cols());
  check.index_vector("ids", ids, dout.rows());
  check.real("dout", dout, ids.numel(), dtable.cols());
  if (ctx.planning()) return;
  check_ids("embedding_backward", ids, dtable.rows());
  if (runs_reference(ctx, check)) {
    reference::embedding_backward(dout, ids, dtable);
  } else {
    cpu::scatter_add_rows(ctx, dout, ids.as<int32_t>(), ids.numel(), dtable);
  }
}

}  // namespace athanor::ops
