// Plain twins of ops/elementwise.h: no checks, one thread, double inside.
#pragma once

#include <cstdint>
#include <span>

#include "base/tensor.h"

namespace athanor::ops::reference {

void convert(const Tensor& from, const Tensor& to);
void fill(const Tensor& t, double value);
void add(const Tensor& from, const Tensor& to);
void accumulate_column_sums(const Tensor& dy, const Tensor& db);
void block_squares(const Tensor& x, int64_t block, std::span<double> sums);

}  // namespace athanor::ops::reference
