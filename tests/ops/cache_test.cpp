#include "ops/cache.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

TWIN_ROW(drop_rows, On::kThisCpu, "drop_rows") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    for (const auto& [rows, drop, keep] :
         {std::tuple{1, 0, 1}, {9, 4, 5}, {70, 3, 60}, {33, 32, 1}, {5, 5, 0}}) {
      constexpr int64_t kWidth = 17;
      Twins t(precision, 151);
      const int cache = t.written(Kind::kAct, rows, kWidth, {.terms = 0});
      std::vector<double>& start = t.start(cache);
      for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<double>(i % 251);
      const Op op = [&](Context& ctx, const Operands& o) { drop_rows(ctx, o(cache), drop, keep); };
      t.compare(fmt::format("{} of {}", drop, rows), op);
      std::vector<double> expected = start;
      std::copy_n(start.begin() + drop * kWidth, keep * kWidth, expected.begin());
      EXPECT_EQ(t.run(Isa::kReference, Precision::kFp64, 1, op)[cache], expected);
    }
  }
}

}  // namespace
}  // namespace athanor::ops
