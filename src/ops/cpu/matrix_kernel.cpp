#include "ops/cpu/matrix_kernel.h"

#include <string>

#include "base/error.h"
#include "ops/cpu/matrix_families.h"

namespace athanor::ops::cpu {

const MatrixKernel& matrix_kernel(Isa isa, DType compute) {
  require(compute == DType::kF32 || compute == DType::kBF16,
          "fast matrix kernels compute in f32 or bf16");
  const bool wide = compute == DType::kF32;
  switch (isa) {
    case Isa::kPortable:
      return wide ? kMatrixPortableF32 : kMatrixPortableBf16;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return wide ? kMatrixAvx2F32 : kMatrixAvx2Bf16;
    case Isa::kAvx512:
      return wide ? kMatrixAvx512F32 : kMatrixAvx512WidenedBf16;
    case Isa::kAvx512Bf16:
      return wide ? kMatrixAvx512F32 : kMatrixAvx512Bf16;
    case Isa::kAmx:
      return wide ? kMatrixAvx512F32 : kMatrixAmxBf16;
#endif
    default:
      throw bug("no fast matrix kernels of the family " + std::string(name_of(isa)));
  }
}

}  // namespace athanor::ops::cpu
