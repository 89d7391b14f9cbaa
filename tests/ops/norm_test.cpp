#include "ops/norm.h"

#include <fmt/format.h>

#include "ops/twins.h"

namespace athanor::ops {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the helpers of this folder

struct Shape {
  int64_t tokens, width, margin;
};
constexpr Shape kShapes[] = {{1, 1, 0},    {1, 257, 0},   {3, 17, 2},  {65, 64, 0},
                             {130, 31, 1}, {200, 128, 0}, {7, 1031, 3}};
constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kBf16};

std::string name(const Shape& s) { return fmt::format("[{}, {}]", s.tokens, s.width); }

TWIN_ROW(rms_norm, On::kThisCpu, "rms_norm") {
  for (const Precision precision : kPrecisions) {
    for (const Shape& s : kShapes) {
      Twins t(precision, 11);
      const int x = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
      const int w = t.input(Kind::kReal, 1, s.width);
      const double terms = 8 + static_cast<double>(s.width) / 8;
      const int y = t.written(Kind::kAct, s.tokens, s.width, {.terms = terms}, s.margin);
      const int inv = t.written(Kind::kReal, 1, s.tokens, {.terms = terms});
      t.compare(name(s), [&](Context& ctx, const Operands& o) {
        rms_norm(ctx, o(x), o(w), 1e-5, o(y), o(inv));
      });
    }
  }
}

TWIN_ROW(rms_norm_backward, On::kThisCpu, "rms_norm_backward") {
  for (const Precision precision : kPrecisions) {
    for (const Kind kind : {Kind::kReal, Kind::kAct}) {
      for (const Shape& s : kShapes) {
        Twins t(precision, 12);
        const int dy = t.input(kind, s.tokens, s.width, 1.0, s.margin);
        const int x = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
        const int w = t.input(Kind::kReal, 1, s.width);
        const int inv = t.input(Kind::kReal, 1, s.tokens);
        const double terms = 16 + static_cast<double>(s.width + s.tokens) / 4;
        const int dx = t.accumulated(s.tokens, s.width, {.terms = terms}, s.margin);
        const int dw = t.accumulated(1, s.width, {.terms = terms});
        t.compare(name(s), [&](Context& ctx, const Operands& o) {
          rms_norm_backward(ctx, o(dy), o(x), o(w), o(inv), o(dx), o(dw));
        });
      }
    }
  }
}

TEST(Norm, BackwardIsTheDerivative) {
  const int64_t tokens = 3, width = 5;
  Twins t(Precision::kFp64, 13);
  const int dy = t.input(Kind::kReal, tokens, width);
  const int x = t.input(Kind::kReal, tokens, width);
  const int w = t.input(Kind::kReal, 1, width);
  const int inv = t.written(Kind::kReal, 1, tokens, {});
  const int y = t.written(Kind::kReal, tokens, width, {});
  const int dx = t.accumulated(tokens, width, {});
  const int dw = t.accumulated(1, width, {});
  const auto run = [&] {
    return t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
      rms_norm(ctx, o(x), o(w), 1e-5, o(y), o(inv));
      rms_norm_backward(ctx, o(dy), o(x), o(w), o(inv), o(dx), o(dw));
    });
  };
  const auto loss = [&] { return dot(run()[y], t.start(dy)); };
  for (const auto& [input, output] : {std::pair{x, dx}, std::pair{w, dw}}) {
    std::vector<double> gradient = run()[output];
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] -= t.start(output)[i];
    expect_gradient(t.start(input), gradient, loss);
  }
}

ResidualScale scale_of(const Operands& o, int first, bool residual) {
  if (!residual) return {o(first), o(first + 1), {}, {}};
  return {o(first), o(first + 1), o(first + 2), o(first + 3)};
}

TWIN_ROW(residual_affine, On::kThisCpu, "residual_affine") {
  for (const Precision precision : kPrecisions) {
    for (const bool residual : {false, true}) {
      for (const Shape& s : kShapes) {
        Twins t(precision, 21);
        const int m = t.input(Kind::kAct, s.tokens, s.width, 1.0, s.margin);
        const int r = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
        const int scale = t.input(Kind::kReal, 1, s.width);
        for (int i = 1; i < 4; ++i) t.input(Kind::kReal, 1, s.width);
        const int out = t.written(Kind::kReal, s.tokens, s.width, {.terms = 8}, s.margin);
        t.compare(name(s), [&](Context& ctx, const Operands& o) {
          residual_affine(ctx, o(m), residual ? o(r) : Tensor(), scale_of(o, scale, residual),
                          o(out));
        });
      }
    }
  }
}

TWIN_ROW(residual_affine_backward, On::kThisCpu, "residual_affine_backward") {
  for (const Precision precision : kPrecisions) {
    for (const bool residual : {false, true}) {
      for (const Shape& s : kShapes) {
        Twins t(precision, 22);
        const int dout = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
        const int m = t.input(Kind::kAct, s.tokens, s.width, 1.0, s.margin);
        const int r = t.input(Kind::kReal, s.tokens, s.width, 1.0, s.margin);
        const int scale = t.input(Kind::kReal, 1, s.width);
        for (int i = 1; i < 4; ++i) t.input(Kind::kReal, 1, s.width);
        const int dm = t.written(Kind::kAct, s.tokens, s.width, {}, s.margin);
        const int dr = t.written(Kind::kReal, s.tokens, s.width, {}, s.margin);
        const double terms = 16 + static_cast<double>(s.tokens) / 4;
        const int dscale = t.accumulated(1, s.width, {.terms = terms});
        for (int i = 1; i < 4; ++i) t.accumulated(1, s.width, {.terms = terms});
        t.compare(name(s), [&](Context& ctx, const Operands& o) {
          residual_affine_backward(ctx, o(dout), o(m), residual ? o(r) : Tensor(),
                                   scale_of(o, scale, residual), o(dm), residual ? o(dr) : Tensor(),
                                   scale_of(o, dscale, residual));
        });
      }
    }
  }
}

TEST(ResidualAffine, WorksInPlace) {
  // out may be r, dr may be dout: the same bits as apart.
  const int64_t tokens = 67, width = 33;
  for (const Isa isa : instruction_sets()) {
    Twins t(Precision::kFp32, 23);
    const int m = t.input(Kind::kReal, tokens, width);
    const int r = t.input(Kind::kReal, tokens, width);
    const int scale = t.input(Kind::kReal, 1, width);
    for (int i = 1; i < 4; ++i) t.input(Kind::kReal, 1, width);
    const int out = t.accumulated(tokens, width, {});
    const int dm = t.written(Kind::kReal, tokens, width, {});
    const int dr = t.accumulated(tokens, width, {});
    const int dscale = t.accumulated(1, width, {});
    for (int i = 1; i < 4; ++i) t.accumulated(1, width, {});
    t.start(out) = t.start(r);
    t.start(dr) = t.start(r);
    const auto run = [&](bool in_place) {
      return t.run(isa, Precision::kFp32, 1, [&](Context& ctx, const Operands& o) {
        residual_affine(ctx, o(m), in_place ? o(out) : o(r), scale_of(o, scale, true), o(out));
        residual_affine_backward(ctx, in_place ? o(dr) : o(r), o(m), o(r), scale_of(o, scale, true),
                                 o(dm), o(dr), scale_of(o, dscale, true));
      });
    };
    EXPECT_EQ(run(true), run(false)) << name_of(isa);
  }
}

TEST(ResidualAffine, BackwardIsTheDerivative) {
  const int64_t tokens = 3, width = 4;
  Twins t(Precision::kFp64, 24);
  const int dout = t.input(Kind::kReal, tokens, width);
  const int m = t.input(Kind::kReal, tokens, width);
  const int r = t.input(Kind::kReal, tokens, width);
  const int scale = t.input(Kind::kReal, 1, width);
  for (int i = 1; i < 4; ++i) t.input(Kind::kReal, 1, width);
  const int out = t.written(Kind::kReal, tokens, width, {});
  const int dm = t.written(Kind::kReal, tokens, width, {});
  const int dr = t.written(Kind::kReal, tokens, width, {});
  const int dscale = t.accumulated(1, width, {});
  for (int i = 1; i < 4; ++i) t.accumulated(1, width, {});
  const auto run = [&] {
    return t.run(Isa::kReference, Precision::kFp64, 1, [&](Context& ctx, const Operands& o) {
      residual_affine(ctx, o(m), o(r), scale_of(o, scale, true), o(out));
      residual_affine_backward(ctx, o(dout), o(m), o(r), scale_of(o, scale, true), o(dm), o(dr),
                               scale_of(o, dscale, true));
    });
  };
  const auto loss = [&] { return dot(run()[out], t.start(dout)); };
  expect_gradient(t.start(m), run()[dm], loss);
  expect_gradient(t.start(r), run()[dr], loss);
  for (int i = 0; i < 4; ++i) {
    std::vector<double> gradient = run()[dscale + i];
    for (size_t k = 0; k < gradient.size(); ++k) gradient[k] -= t.start(dscale + i)[k];
    expect_gradient(t.start(scale + i), gradient, loss);
  }
}

}  // namespace
}  // namespace athanor::ops
