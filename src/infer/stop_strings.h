// Texts at which generation ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace athanor::infer {

/// Passes a text on that comes in pieces, up to where the stop string begins that is complete first. What may yet become one
/// is held back.
class StopStrings {
 public:
  /// Valid UTF-8, none of them empty: then no character is ever cut.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  /// What of the text is certain with `piece`. Nothing once stopped.
  std::string push(std::string_view piece);
  /// What was held back: the text ends here.
  std::string finish();
  /// A stop string has come.
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool stopped_ = false;
};

/// Throws kUsage, naming the option, for a stop string that is empty or not UTF-8.
void check_stop_strings(const std::vector<std::string>& strings);

}  // namespace athanor::infer
