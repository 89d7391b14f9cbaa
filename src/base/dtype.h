// Element types of tensors and the bfloat16 scalar.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace athanor {

/// Element types. f64 exists for finite differences in tests; training runs in f32 and bf16.
enum class DType : uint8_t { kF64, kF32, kBF16, kI64, kI32, kU8 };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

/// The safetensors name of a dtype: "F32", "BF16", …
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "F64";
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kI64:
      return "I64";
    case DType::kI32:
      return "I32";
    case DType::kU8:
      return "U8";
  }
  return "?";
}

/// The dtype of a safetensors name; none for a name that is not one of these.
constexpr std::optional<DType> dtype_named(std::string_view name) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
    if (name_of(dtype) == name) return dtype;
  }
  return std::nullopt;
}

/// Storage of a bfloat16: the upper half of an IEEE float. Arithmetic happens in float.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN (quiet).
  explicit bfloat16(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

template <class T>
struct dtype_of;
template <>
struct dtype_of<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct dtype_of<bfloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct dtype_of<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::kU8;
};

}  // namespace athanor
