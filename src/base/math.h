// Elementary functions in double whose bits do not depend on the C library. Compiled with -ffp-contract=off.
#pragma once

namespace athanor::math {

double exp(double x);            ///< within 2 ulp; 0 below -745, +inf above 709.8
double log(double x);            ///< within 2 ulp; x > 0
double sin(double x);            ///< |x| <= 1e6 (2^20 quarter turns), absolute error below 1e-15
double cos(double x);            ///< as sin
double pow(double x, double y);  ///< x > 0: exp(y log x)

}  // namespace athanor::math
