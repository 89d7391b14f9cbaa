// The word that a misspelt one probably meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace athanor {

/// The candidate with the fewest edits (insert, delete, replace, swap of neighbours) from `word`,
/// the first among equals; empty when none is near enough to be worth naming (more edits than half
/// of the longer word's length).
std::string nearest_word(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'x'?" or nothing: what to put behind a message that names `word`.
std::string suggestion(std::string_view word, std::span<const std::string> candidates);

}  // namespace athanor
