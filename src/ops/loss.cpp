#include "ops/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/checks.h"
#include "ops/cpu/loss.h"
#include "ops/cpu/reference/loss.h"
#include "ops/trace.h"

namespace athanor::ops {
namespace {

/// Rows that go through the products together: the vocabulary's weights are read, and dtable read and written, once for
/// them. Their exponentials are what is kept of the logits.
constexpr int64_t kRows = 1024;
constexpr int64_t kRowsBytes = int64_t{256} << 20;
constexpr int64_t kFewestRows = 128;

int64_t rows_at_once(int64_t vocabulary, DType dtype) {
  const int64_t row_bytes = vocabulary * static_cast<int64_t>(size_of(dtype));
  const int64_t rows = std::min(kRows, kRowsBytes / std::max<int64_t>(1, row_bytes));
  return std::max(kFewestRows, rows / kFewestRows * kFewestRows);
}

void check_targets(const int32_t* targets, int64_t tokens, int64_t vocabulary) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (targets[t] >= vocabulary) {
      throw bug(fmt::format("vocabulary_loss: token {} has target {}, outside the vocabulary of {}",
                            t, targets[t], vocabulary));
    }
  }
}

/// Tokens, vocabulary, width. Logits are no operand: they need not exist. Products that are ops of their own add their
/// FLOPs themselves; the fast kernel's logits, which are not, are counted here.
OpWork loss_work(const Tensor& h, const VocabularyHead& head, bool plain, const Tensor& dh,
                 const Tensor& dtable) {
  const PackedMatrix& w = *head.forward;
  const double logits = static_cast<double>(h.rows()) * static_cast<double>(w.n);
  const double once = static_cast<double>(PackedMatrix::bytes(w.dtype, w.n, w.k));
  return {.shape = {h.rows(), w.n, w.k},
          .flops = plain ? 0 : 2 * logits * static_cast<double>(w.k),
          .compute = w.dtype,
          .bytes = bytes_of({h, dh, dtable, dtable}) + (dh.empty() ? 1 : 2) * once};
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
  const bool plain = runs_reference(ctx, check);
  const TraceSpan span(ctx, "vocabulary_loss",
                       [&] { return loss_work(h, head, plain, dh, dtable); });
  if (!ctx.planning()) check_targets(targets.as<int32_t>(), tokens, vocabulary);

  const ArenaScope scope(ctx.scratch());
  Arena& scratch = ctx.scratch();
  const int64_t chunk = std::min(tokens, rows_at_once(vocabulary, plain ? loss.dtype() : act));
  const Tensor logits = plain ? scratch.tensor(loss.dtype(), {chunk, vocabulary}) : Tensor();
  const Tensor dlogits = with_gradient ? scratch.tensor(act, {chunk, vocabulary}) : Tensor();
  const bool factored = with_gradient && !plain;
  const Tensor factors = factored ? scratch.tensor(DType::kF32, {chunk}) : Tensor();
  const Tensor scaled = factored ? scratch.tensor(act, {chunk, width}) : Tensor();
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    const int64_t rows = std::min(chunk, tokens - begin);
    const Tensor input = h.slice_rows(begin, rows), row_loss = loss.part(begin, rows);
    const Tensor d = with_gradient ? dlogits.slice_rows(0, rows) : Tensor();
    const int32_t* wanted = targets.as<int32_t>() + begin;
    if (plain) {
      const Tensor x = logits.slice_rows(0, rows);
      linear(ctx, input, *head.forward, x);
      if (!ctx.planning()) reference::cross_entropy(x, wanted, gradient_scale, row_loss, d);
      if (!with_gradient) continue;
      linear(ctx, d, *head.transposed, dh.slice_rows(begin, rows));
      accumulate_outer(ctx, act, d, input, dtable);
      continue;
    }
    const std::span factor(factored ? factors.as<float>() : nullptr,
                           static_cast<size_t>(factored ? rows : 0));
    cpu::head_exponentials(ctx, input, *head.forward, wanted, gradient_scale, row_loss, d, factor);
    if (!with_gradient) continue;
    // dh = factor ⊙ (d · E), dE = dᵀ · (factor ⊙ h)
    const Tensor dinput = dh.slice_rows(begin, rows), scaled_input = scaled.slice_rows(0, rows);
    linear(ctx, d, *head.transposed, dinput);
    cpu::scale_rows(ctx, dinput, factor, dinput);
    cpu::scale_rows(ctx, input, factor, scaled_input);
    accumulate_outer(ctx, act, d, scaled_input, dtable);
  }
}

}  // namespace athanor::ops
