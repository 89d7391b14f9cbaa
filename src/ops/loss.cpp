#include "ops/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/checks.h"
#include "ops/cpu/loss.h"
#include "ops/cpu/reference/loss.h"

namespace athanor::ops {
namespace {

/// Rows of logits that exist at once: enough that the weights' way through the caches pays, few
/// enough that the logits stay in them.
constexpr int64_t kLogitRows = 128;
/// Rows whose gradient is kept before it enters the two backward products: dtable is read and
/// written once for them.
constexpr int64_t kGradientRows = 1024;
constexpr int64_t kGradientBytes = int64_t{256} << 20;

int64_t gradient_rows(int64_t vocabulary, DType act) {
  const int64_t row_bytes = vocabulary * static_cast<int64_t>(size_of(act));
  const int64_t rows = std::min(kGradientRows, kGradientBytes / std::max<int64_t>(1, row_bytes));
  return std::max(kLogitRows, rows / kLogitRows * kLogitRows);
}

void check_targets(const int32_t* targets, int64_t tokens, int64_t vocabulary) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (targets[t] >= vocabulary) {
      throw bug(fmt::format("vocabulary_loss: token {} has target {}, outside the vocabulary of {}",
                            t, targets[t], vocabulary));
    }
  }
}

Tensor part(const Tensor& vector, int64_t begin, int64_t count) {
  return {vector.data() + static_cast<size_t>(begin) * size_of(vector.dtype()),
          vector.dtype(),
          {count}};
}

}  // namespace

void vocabulary_loss(Context& ctx, const Tensor& h, const VocabularyHead& head,
                     const Tensor& targets, double gradient_scale, const Tensor& loss,
                     const Tensor& dh, const Tensor& dtable) {
  const Checks check("vocabulary_loss", loss);
  check.that(head.forward != nullptr, "the packed vocabulary matrix is missing");
  const int64_t tokens = h.rows(), width = head.forward->k, vocabulary = head.forward->n;
  const DType act = head.forward->dtype;
  check.real_or_act("h", h, tokens, width);
  check.index_vector("targets", targets, tokens);
  check.real_vector("loss", loss, tokens);
  check.that(dh.empty() == dtable.empty(), "dh and dtable go together");
  const bool with_gradient = !dh.empty();
  if (with_gradient) {
    check.that(head.transposed != nullptr && head.transposed->n == width &&
                   head.transposed->k == vocabulary,
               "the transposed vocabulary matrix is missing or of another shape");
    check.real("dh", dh, tokens, width);
    check.real("dtable", dtable, vocabulary, width);
  }
  if (!ctx.planning()) check_targets(targets.as<int32_t>(), tokens, vocabulary);

  const ArenaScope scope(ctx.scratch());
  const int64_t chunk =
      std::min(tokens, with_gradient ? gradient_rows(vocabulary, act) : kLogitRows);
  const Tensor logits =
      ctx.scratch().tensor(loss.dtype(), {std::min(chunk, kLogitRows), vocabulary});
  const Tensor dlogits = with_gradient ? ctx.scratch().tensor(act, {chunk, vocabulary}) : Tensor();
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    const int64_t rows = std::min(chunk, tokens - begin);
    for (int64_t row = 0; row < rows; row += kLogitRows) {
      const int64_t count = std::min(kLogitRows, rows - row), first = begin + row;
      const Tensor block = logits.slice_rows(0, count);
      linear(ctx, h.slice_rows(first, count), *head.forward, block);
      if (ctx.planning()) continue;
      const int32_t* wanted = targets.as<int32_t>() + first;
      const Tensor d = with_gradient ? dlogits.slice_rows(row, count) : Tensor();
      if (runs_reference(ctx, loss.dtype())) {
        reference::cross_entropy(block, wanted, gradient_scale, part(loss, first, count), d);
      } else {
        cpu::cross_entropy(ctx, block, wanted, gradient_scale, part(loss, first, count), d);
      }
    }
    if (!with_gradient) continue;
    const Tensor d = dlogits.slice_rows(0, rows);
    linear(ctx, d, *head.transposed, dh.slice_rows(begin, rows));
    accumulate_outer(ctx, act, d, h.slice_rows(begin, rows), dtable);
  }
}

}  // namespace athanor::ops
