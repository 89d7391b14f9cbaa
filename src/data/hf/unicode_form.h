// Unicode normal forms as Hugging Face's tokenizers make them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace athanor::data::hf {

enum class UnicodeForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

/// Normalizes by ICU, of which only characters up to Unicode 9 are touched: newer marks are neither reordered nor composed
/// there. Immutable; may be used from many threads at once.
class UnicodeNormalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form);
  ~UnicodeNormalizer();
  /// False when `text`, valid UTF-8, is normal already; else `out` becomes its form. Time is linear, also for text that is
  /// nothing but combining marks.
  bool apply(std::string_view text, std::string& out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace athanor::data::hf
