// The named classes of regular expressions (\p{L}, \s, \w …) as PCRE2 character classes of Unicode 16.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace athanor::data::hf {

/// What goes between the brackets of a PCRE2 class: all characters of a property ("L", "Lu", "Han" …), or of a shorthand
/// ("s", "d", "w", "h": Oniguruma's \s, \d, \w and \h; "[w]": its \w in brackets), or with `negated` all others. Nothing when
/// the name is not known.
std::optional<std::string> class_of(std::string_view name, bool negated);

}  // namespace athanor::data::hf
