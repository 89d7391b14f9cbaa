#include "cli/verbs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>

namespace athanor::cli {
namespace {

/// What is wrong with `text` as a T in decimal digits; empty when nothing is.
template <class T>
std::string syntax_fault(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stopped, fault] = std::from_chars(text.data(), end, value);
  if constexpr (std::is_floating_point_v<T>) {
    if (fault == std::errc::result_out_of_range) return text + " is too large or too small";
    const bool number = fault == std::errc() && stopped == end && std::isfinite(value);
    return number ? "" : text + " is not a number";
  }
  if (fault == std::errc::result_out_of_range) return text + " is too large a number";
  if (fault != std::errc() || stopped != end) {
    const bool negative = !std::is_signed_v<T> && text.starts_with("-");
    return text + (negative ? " is negative" : " is not a whole number");
  }
  const size_t digits = text.starts_with("-") ? 1 : 0;
  const bool octal = text.size() > digits + 1 && text[digits] == '0';
  return octal ? text + " begins with a zero" : "";
}

/// "at least 1", "more than 0 and at most 1"; empty when everything is allowed.
template <class T>
std::string range_text(const Range<T>& range) {
  const Range<T> all;
  std::string text;
  if (range.least != all.least) {
    text = fmt::format("{} {}", range.above ? "more than" : "at least", range.least);
  }
  if (range.most != all.most) {
    text += fmt::format("{}at most {}", text.empty() ? "" : " and ", range.most);
  }
  return text;
}

template <class T, class V>
CLI::Option* number_option(CLI::App& verb, const std::string& names, V& value,
                           const std::string& help, const Range<T>& range) {
  const auto fault = [range](const std::string& text) -> std::string {
    T number{};
    std::string wrong = syntax_fault(text, number);
    if (!wrong.empty()) return wrong;
    const bool low = number < range.least || (range.above && number == range.least);
    return low || number > range.most ? text + " must be " + range_text(range) : "";
  };
  return verb.add_option(names, value, help)->check(CLI::Validator(fault, ""));
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
                        const std::string& help, const Range<int64_t>& range) {
  return number_option(verb, names, value, help, range)->capture_default_str();
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, int32_t& value,
                        const std::string& help, const Range<int32_t>& range) {
  return number_option(verb, names, value, help, range)->capture_default_str();
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, uint64_t& value,
                        const std::string& help, const Range<uint64_t>& range) {
  return number_option(verb, names, value, help, range)->capture_default_str();
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, std::optional<int64_t>& value,
                        const std::string& help, const Range<int64_t>& range) {
  return number_option(verb, names, value, help, range);
}
CLI::Option* add_number(CLI::App& verb, const std::string& names, double& value,
                        const std::string& help, const Range<double>& range) {
  return number_option(verb, names, value, help, range)->capture_default_str();
}

void add_precision(CLI::App& verb, std::string& precision) {
  verb.add_option("--precision", precision, "How weights and activations are held: bf16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
}

}  // namespace athanor::cli
