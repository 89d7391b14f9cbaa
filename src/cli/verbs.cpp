#include "cli/verbs.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace athanor::cli {
namespace {

/// What is wrong with `text` as a T in decimal digits; empty when nothing is.
template <class T>
std::string whole_number_fault(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, fault] = std::from_chars(text.data(), end, value);
  if (fault == std::errc::result_out_of_range) return text + " is too large a number";
  if (fault != std::errc() || stopped != end) {
    const bool negative = !std::is_signed_v<T> && text.starts_with("-");
    return text + (negative ? " is negative" : " is not a whole number");
  }
  const size_t digits = text.starts_with("-") ? 1 : 0;
  const bool octal = text.size() > digits + 1 && text[digits] == '0';
  return octal ? text + " begins with a zero" : "";
}

template <class T, class V>
CLI::Option* whole_number(CLI::App& verb, const std::string& names, V& value,
                          const std::string& help) {
  return verb.add_option(names, value, help)->check(CLI::Validator(whole_number_fault<T>, ""));
}

}  // namespace

CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& help,
                   const std::string& example) {
  CLI::App* verb = parent.add_subcommand(name, help);
  verb->footer("Example:\n  athanor " + example);
  return verb;
}

CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help) {
  return parent.add_subcommand(name, help);
}

void add_json_flag(CLI::App& verb, bool& json) {
  verb.add_flag("--json", json, "Print one JSON object instead of text");
}

CLI::Option* add_number(CLI::App& verb, const std::string& names, int64_t& value,
                        const std::string& help) {
  return whole_number<int64_t>(verb, names, value, help)->capture_default_str();
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, int32_t& value,
                        const std::string& help) {
  return whole_number<int32_t>(verb, names, value, help)->capture_default_str();
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, uint64_t& value,
                        const std::string& help) {
  return whole_number<uint64_t>(verb, names, value, help)->capture_default_str();
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, std::optional<int64_t>& value,
                        const std::string& help) {
  return whole_number<int64_t>(verb, names, value, help);
}

void add_precision(CLI::App& verb, std::string& precision) {
  verb.add_option("--precision", precision, "How weights and activations are held: bf16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
}

}  // namespace athanor::cli
