// Regular expressions of tokenizer.json, which Hugging Face's library gives to Oniguruma, in the words of PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace athanor::data::hf {

/// The PCRE2 pattern (UTF, multi-line, newline LF, without UCP) that matches what Oniguruma with Ruby's syntax and Unicode
/// 16 does. Where the two languages differ the text is rewritten: classes are spelled out, {n,m}+ is a repeated repetition,
/// (?m) lets a dot match a newline. Throws std::invalid_argument naming what is not known, and where.
std::string translate_regex(std::string_view regex);

}  // namespace athanor::data::hf
