// The kernels of each family; those of x86 exist only there.
#pragma once

#include "ops/cpu/matrix_kernel.h"

namespace athanor::ops::cpu {

extern const MatrixKernel kMatrixPortableF32;
extern const MatrixKernel kMatrixPortableBf16;
extern const MatrixKernel kMatrixAvx2F32;
extern const MatrixKernel kMatrixAvx2Bf16;
extern const MatrixKernel kMatrixAvx512F32;
extern const MatrixKernel kMatrixAvx512WidenedBf16;
extern const MatrixKernel kMatrixAvx512Bf16;
extern const MatrixKernel kMatrixAmxBf16;

}  // namespace athanor::ops::cpu
