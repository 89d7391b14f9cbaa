#include "data/hf/unicode_form.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

constexpr size_t kLongMarks = 32;  // of marks in a row that ICU may sort, one by one, by itself

void check(UErrorCode status, const char* what) {
  if (U_FAILURE(status)) throw bug(std::string("ICU: ") + what + ": " + u_errorName(status));
}

const icu::Normalizer2& whole_normalizer(UnicodeForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = nullptr;
  switch (form) {
    case UnicodeForm::kNfc:
      normalizer = icu::Normalizer2::getNFCInstance(status);
      break;
    case UnicodeForm::kNfd:
      normalizer = icu::Normalizer2::getNFDInstance(status);
      break;
    case UnicodeForm::kNfkc:
      normalizer = icu::Normalizer2::getNFKCInstance(status);
      break;
    case UnicodeForm::kNfkd:
      normalizer = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  check(status, "no normal form");
  return *normalizer;
}

}  // namespace

struct UnicodeNormalizer::State {
  explicit State(UnicodeForm form) : whole(whole_normalizer(form)) {
    // The first character that any of these forms may change or move: U+0300 for NFC, U+00A0 for the compatibility
    // forms, U+00C0 for NFD. Its UTF-8 begins with a byte of at least `first_lead`.
    first_lead = form == UnicodeForm::kNfc ? 0xCC : form == UnicodeForm::kNfd ? 0xC3 : 0xC2;
    UErrorCode status = U_ZERO_ERROR;
    characters.applyPattern(icu::UnicodeString("[:age=9.0:]"), status);
    check(status, "no characters of Unicode 9");
    characters.freeze();
    filtered = std::make_unique<icu::FilteredNormalizer2>(whole, characters);
  }

  bool is_mark(char32_t c) const {
    return filtered->getCombiningClass(static_cast<UChar32>(c)) != 0 ||
           (c >= 0xF73 && c <= 0xF81);  // Tibetan vowels that begin no character but have no class
  }
  /// Runs of marks, put apart and sorted as the standard wants. ICU inserts them one by one, which takes quadratic time.
  std::string with_sorted_marks(std::string_view text) const;

  const icu::Normalizer2& whole;
  icu::UnicodeSet characters;
  std::unique_ptr<icu::FilteredNormalizer2> filtered;
  unsigned char first_lead;
};

std::string UnicodeNormalizer::State::with_sorted_marks(std::string_view text) const {
  std::string out;
  std::vector<char32_t> marks;
  std::string run;
  const auto flush = [&] {
    if (marks.size() <= kLongMarks) {
      out += run;
    } else {
      struct Mark {
        uint8_t combining_class;
        size_t place;
        char32_t code;
      };
      std::vector<Mark> sorted;
      for (const char32_t mark : marks) {
        icu::UnicodeString parts;
        if (!characters.contains(static_cast<UChar32>(mark)) ||
            !whole.getDecomposition(static_cast<UChar32>(mark), parts)) {
          parts = icu::UnicodeString(static_cast<UChar32>(mark));
        }
        for (int32_t i = 0; i < parts.length(); i = parts.moveIndex32(i, 1)) {
          const UChar32 c = parts.char32At(i);
          sorted.push_back(
              {filtered->getCombiningClass(c), sorted.size(), static_cast<char32_t>(c)});
        }
      }
      // A character of class 0 among them stays where it is.
      for (auto begin = sorted.begin(); begin != sorted.end();) {
        const auto end = std::find_if(begin, sorted.end(),
                                      [](const Mark& mark) { return mark.combining_class == 0; });
        std::sort(begin, end, [](const Mark& a, const Mark& b) {
          return std::tie(a.combining_class, a.place) < std::tie(b.combining_class, b.place);
        });
        begin = end == sorted.end() ? end : end + 1;
      }
      for (const Mark& mark : sorted) append_utf8(out, mark.code);
    }
    marks.clear();
    run.clear();
  };
  for (size_t i = 0; i < text.size();) {
    const Character c = first_character(text.data() + i);
    if (c.code >= 0x300 && is_mark(c.code)) {
      marks.push_back(c.code);
      run += text.substr(i, c.bytes);
    } else {
      if (!marks.empty()) flush();
      out += text.substr(i, c.bytes);
    }
    i += c.bytes;
  }
  flush();
  return out;
}

UnicodeNormalizer::UnicodeNormalizer(UnicodeForm form) : state_(std::make_unique<State>(form)) {}
UnicodeNormalizer::~UnicodeNormalizer() = default;

bool UnicodeNormalizer::apply(std::string_view text, std::string& out) const {
  const auto touched = [this](char c) {
    return static_cast<unsigned char>(c) >= state_->first_lead;
  };
  if (std::none_of(text.begin(), text.end(), touched)) return false;
  constexpr size_t kLargest = size_t{1} << 30;  // ICU counts bytes in 32 bits
  if (text.size() > kLargest) throw data_error("a text of more than 1 GB cannot be normalized");
  size_t marks_in_a_row = 0;
  size_t most_marks = 0;
  for (size_t i = 0; i < text.size();) {
    const Character c = first_character(text.data() + i);
    marks_in_a_row = c.code >= 0x300 && state_->is_mark(c.code) ? marks_in_a_row + 1 : 0;
    most_marks = std::max(most_marks, marks_in_a_row);
    i += c.bytes;
  }
  std::string sorted;
  if (most_marks > kLongMarks) {
    sorted = state_->with_sorted_marks(text);
    text = sorted;
  }
  out.clear();
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  state_->filtered->normalizeUTF8(
      0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())), sink, nullptr, status);
  check(status, "normalization failed");
  return true;
}

}  // namespace athanor::data::hf
