#include "cli/verbs.h"

#include <CLI/CLI.hpp>

namespace athanor::cli {

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

void add_precision(CLI::App& verb, std::string& precision) {
  verb.add_option("--precision", precision, "How weights and activations are held: bf16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
}

}  // namespace athanor::cli
