// Hand-written matchers for the regular expressions that most tokenizers split words with.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/threads.h"

namespace athanor::data::hf {

/// The patterns of GPT-2, of cl100k, Llama 3 and Qwen (one digit at a time, or up to three), and of o200k. Each of them
/// matches every text without a gap: the words are the matches.
enum class KnownPattern : uint8_t { kGpt2, kCl100kOneDigit, kCl100kThreeDigits, kO200k };

/// GPT-2's own, which a ByteLevel pre-tokenizer uses by itself.
extern const char* const kGpt2Regex;

/// That of cl100k with up to three digits, as Llama 3 spells it: what our own tokenizers use.
extern const char* const kLlama3Regex;

/// The known pattern that a regular expression is, in one of the spellings that occur.
std::optional<KnownPattern> known_pattern(std::string_view regex);

/// Calls word(begin, end) for each word of `text`, in order.
void each_word(KnownPattern pattern, std::string_view text,
               FunctionRef<void(size_t begin, size_t end)> word);

}  // namespace athanor::data::hf
