// Special functions in double that base/math does not have.
#pragma once

namespace athanor::ops::reference {

/// Distribution function of the standard normal, relative error about 1e-15.
double normal_cdf(double x);
/// Its density, e^(−x²/2)/√(2π).
double normal_pdf(double x);
/// x · σ(x) and its derivative, without overflow.
double silu(double x);
double silu_derivative(double x);

}  // namespace athanor::ops::reference
