#include "ops/embedding.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TWIN_ROW(embedding, On::kThisCpu, "embedding", "embedding_backward") {
  for (const auto& [tokens, vocabulary, width] :
       {std::tuple{1, 1, 1}, {7, 3, 17}, {500, 11, 131}, {90, 1000, 64}}) {
    Twins t(Precision::kFp32, 81);
    const int table = t.input(Kind::kReal, vocabulary, width);
    const int ids = t.input(Kind::kIndex, 1, tokens);
    for (double& id : t.start(ids)) {
      id = static_cast<double>(t.random().below(static_cast<uint64_t>(vocabulary)));
    }
    const int dout = t.input(Kind::kReal, tokens, width);
    const int out = t.written(Kind::kReal, tokens, width, {.terms = 0});
    const int dtable = t.accumulated(vocabulary, width, {.terms = tokens / 2.0});
    t.compare(fmt::format("{} of {}", tokens, vocabulary), [&](Context& ctx, const Operands& o) {
      embedding(ctx, o(table), o(ids), o(out));
      embedding_backward(ctx, o(dout), o(ids), o(dtable));
    });
  }
}

TEST(Embedding, RefusesIdsOutsideTheTable) {
  std::vector<float> table(6), out(4);
  Arena scratch("scratch");
  scratch.reserve(64);
  Context ctx(Threads(1), scratch);
  for (const int32_t bad : {-1, 3}) {
    std::vector<int32_t> ids{0, bad};
    EXPECT_THROW(embedding(ctx, Tensor::of(table.data(), {3, 2}), Tensor::of(ids.data(), {2}),
                           Tensor::of(out.data(), {2, 2})),
                 Error);
    EXPECT_THROW(embedding_backward(ctx, Tensor::of(out.data(), {2, 2}),
                                    Tensor::of(ids.data(), {2}), Tensor::of(table.data(), {3, 2})),
                 Error);
  }
}

}  // namespace
}  // namespace athanor::ops
