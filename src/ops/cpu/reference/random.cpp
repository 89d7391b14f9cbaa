#include "ops/cpu/reference/random.h"

#include <algorithm>

#include "base/random.h"
#include "ops/random.h"

namespace athanor::ops::reference {
namespace {

template <class Real>
void fill_block(const Tensor& t, int64_t block, double deviation, RandomStream random) {
  Real* values = t.as<Real>();
  const int64_t end = std::min(t.numel(), (block + 1) * kNormalBlock);
  for (int64_t i = block * kNormalBlock; i < end; ++i) {
    values[i] = static_cast<Real>(deviation * random.normal());
  }
}

}  // namespace

void fill_normal(const Threads& threads, const Tensor& t, double deviation, uint64_t seed,
                 const char* name) {
  threads.run((t.numel() + kNormalBlock - 1) / kNormalBlock, [&](int64_t block, int) {
    const RandomStream random(seed, stream_of(name, static_cast<uint64_t>(block)));
    if (t.dtype() == DType::kF64) {
      fill_block<double>(t, block, deviation, random);
    } else {
      fill_block<float>(t, block, deviation, random);
    }
  });
}

}  // namespace athanor::ops::reference
