#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/hf/pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <stdexcept>
#include <utility>

#include "data/hf/regex_syntax.h"
#include "data/hf/unicode.h"

namespace athanor::data::hf {
namespace {

constexpr size_t kJitStackBytes = size_t{64} << 20;

class LiteralPattern : public Pattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  void each_match(std::string_view text, FunctionRef<void(size_t, size_t)> match) const override {
    if (literal_.empty()) return;
    for (size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos;) {
      match(at, at + literal_.size());
      at += literal_.size();
    }
  }

 private:
  std::string literal_;
};

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>>;

std::string message_of(int error) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

class RegexPattern : public Pattern {
 public:
  explicit RegexPattern(const std::string& regex) {
    const std::string translated = translate_regex(regex);
    const CompileContext context(pcre2_compile_context_create(nullptr));
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_MULTILINE, &error, &offset, context.get()));
    if (code_ == nullptr) throw std::invalid_argument(message_of(error));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it matching is slow, not wrong
  }

  void each_match(std::string_view text, FunctionRef<void(size_t, size_t)> match) const override {
    const MatchData data(pcre2_match_data_create(1, nullptr));
    const MatchContext context(pcre2_match_context_create(nullptr));
    JitStack stack;
    // PCRE2 takes no null pointer, even for an empty text.
    const char* subject = text.data() == nullptr ? "" : text.data();
    size_t from = 0;
    size_t last_end = std::string_view::npos;
    while (from <= text.size()) {
      int found = run(subject, text.size(), from, 0, data.get(), context.get());
      if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
        stack.reset(pcre2_jit_stack_create(size_t{1} << 15, kJitStackBytes, nullptr));
        pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
        found = run(subject, text.size(), from, 0, data.get(), context.get());
      }
      if (found == PCRE2_ERROR_NOMATCH) return;
      if (found < 0) {
        throw data_error(
            fmt::format("the text is too much for a regular expression of the tokenizer: {}",
                        message_of(found)));
      }
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
      const size_t begin = ends[0];
      const size_t end = ends[1];
      if (begin == end && end == last_end) {
        from = end + (end < text.size() ? first_character(text.data() + end).bytes : 1);
        continue;
      }
      match(begin, end);
      from = last_end = end;
    }
  }

 private:
  int run(const char* subject, size_t size, size_t from, uint32_t options, pcre2_match_data* data,
          pcre2_match_context* context) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(subject), size, from,
                       options | PCRE2_NO_UTF_CHECK, data, context);
  }

  Code code_;
};

}  // namespace

std::unique_ptr<Pattern> literal_pattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

std::unique_ptr<Pattern> regex_pattern(const std::string& regex) {
  return std::make_unique<RegexPattern>(regex);
}

std::string regex_of(const Field& field) {
  field.only({"String", "Regex"});
  const auto regex = field.find("Regex");
  return regex ? regex->text() : "";
}

std::unique_ptr<Pattern> read_pattern(const Field& field) {
  if (const std::string regex = regex_of(field); !regex.empty()) {
    try {
      return regex_pattern(regex);
    } catch (const std::invalid_argument& error) {
      throw field.refusal(fmt::format("is a regular expression that does not compile: {} in {}",
                                      error.what(), shown(regex)));
    }
  }
  if (!field.find("String"))
    throw field.refusal("is neither a String nor a Regex that says something");
  return literal_pattern(field.at("String").text());
}

void each_part(const Pattern& pattern, std::string_view text,
               FunctionRef<void(size_t begin, size_t end, bool is_match)> part) {
  size_t done = 0;
  pattern.each_match(text, [&](size_t begin, size_t end) {
    if (done != begin) part(done, begin, false);
    part(begin, end, true);
    done = end;
  });
  if (done != text.size()) part(done, text.size(), false);
}

}  // namespace athanor::data::hf
