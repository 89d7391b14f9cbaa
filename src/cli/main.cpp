// athanor VERB …: parses the command line, runs one verb, and turns every failure into one line on
// stderr and an exit code of DESIGN §2.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/spelling.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "cli/version.h"

namespace athanor::cli {
namespace {

bool is_closed(int fd) { return fcntl(fd, F_GETFD) == -1 && errno == EBADF; }

/// A standard stream that is closed would lend its number to the next file opened, and what the
/// program prints would land in that file. Reading the null device takes the number and keeps
/// writes failing.
void occupy_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (is_closed(fd) && ::open("/dev/null", O_RDONLY) < 0) std::abort();
  }
}

/// Ends the process as an unhandled SIGPIPE does: quiet, and no success to whoever waits.
[[noreturn]] void die_of_closed_pipe() {
  std::signal(SIGPIPE, SIG_DFL);
  std::raise(SIGPIPE);
  std::_Exit(128 + SIGPIPE);
}

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> names_of_verbs(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app)) names.push_back(verb->get_name());
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// Finds the verb that the arguments name. Refuses a missing or unknown one by name: CLI11 would
/// only say that a subcommand is required.
const CLI::App& find_verb(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* at = &app;
  std::string path = "athanor";
  for (const std::string& argument : arguments) {
    const std::vector<std::string> names = names_of_verbs(*at);
    if (names.empty() || argument.starts_with("-")) return *at;
    const std::vector<const CLI::App*> verbs = verbs_of(*at);
    const auto found = std::find(names.begin(), names.end(), argument);
    if (found == names.end()) {
      throw usage_error("unknown verb '" + argument + "'" + suggestion(argument, names) + " (" +
                        path + " has: " + joined(names) + ")");
    }
    at = verbs[static_cast<size_t>(found - names.begin())];
    path += " " + argument;
  }
  if (const auto names = names_of_verbs(*at); !names.empty()) {
    throw usage_error("a verb is missing: " + path + " has: " + joined(names));
  }
  return *at;
}

/// "athanor eval perplexity".
std::string path_of(const CLI::App& verb) {
  const CLI::App* parent = verb.get_parent();
  return (parent == nullptr ? "" : path_of(*parent) + " ") + verb.get_name();
}

/// "unknown option --promt; did you mean '--prompt'?" for the first argument that is no option of the verb, else nothing.
std::string unknown_option(const CLI::App& verb, const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string word = argument.substr(0, argument.find('='));
    const bool known = std::find(names.begin(), names.end(), word) != names.end();
    if (word.starts_with("--") && !known) return "unknown option " + word + suggestion(word, names);
  }
  return "";
}

/// Why the arguments do not parse, and where help is. CLI11 reports what is missing before what is unknown; a misspelt
/// option is usually the reason for both.
std::string parse_failure(const CLI::ParseError& error, const CLI::App& verb,
                          const std::vector<std::string>& arguments) {
  std::string message = error.what();
  const bool unmatched = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                         dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (unmatched) {
    if (const std::string unknown = unknown_option(verb, arguments); !unknown.empty()) {
      message = unknown;
    }
  }
  return message + " (see: " + path_of(verb) + " --help)";
}

int run(int argc, char** argv, const std::vector<std::string>& arguments) {
  CLI::App app("Trains, evaluates and runs mixture-of-experts language models of the ZAYA1 family.",
               "athanor");
  app.set_version_flag("--version", version_text, "Print version, commit and kernels");
  app.require_subcommand(1);
  app.footer("athanor VERB --help tells more about a verb.");

  add_train(app);
  add_generate(app);
  add_probe(app);
  add_eval(app);
  add_tokenizer(app);
  add_data(app);
  add_checkpoint(app);
  add_plan(app);
  add_bench(app);

  const CLI::App& verb = find_verb(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const CLI::App* parent = verb.get_parent();
    print(verb.help(parent == nullptr ? "" : path_of(*parent)));
  } catch (const CLI::CallForVersion&) {
    print(version_text() + "\n");
  } catch (const CLI::ParseError& error) {
    throw usage_error(parse_failure(error, verb, arguments));
  }
  flush_output();
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace
}  // namespace athanor::cli

int main(int argc, char** argv) {
  using athanor::ExitCode;
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const bool mute = athanor::cli::is_closed(STDOUT_FILENO);
  athanor::cli::occupy_standard_streams();
  if (mute) {  // before any work: every verb ends with something to say there
    return athanor::cli::fail(ExitCode::kUsage,
                              "standard output is closed; let it go somewhere, such as /dev/null",
                              arguments);
  }
  std::signal(SIGPIPE,
              SIG_IGN);  // a pipe that closes is an error of write(2), seen where it happens
  try {
    return athanor::cli::run(argc, argv, arguments);
  } catch (const athanor::Error& error) {
    return athanor::cli::fail(error.code(), error.what(), arguments);
  } catch (const athanor::cli::Ended& ended) {
    return ended.code;
  } catch (const athanor::cli::OutputClosed&) {
    athanor::cli::die_of_closed_pipe();
  } catch (const std::filesystem::filesystem_error& error) {
    // What a path of the command line cannot be asked: a folder that may not be entered, a name too long.
    const athanor::Error refused = athanor::system_error(error.code().value(), "look at",
                                                         error.path1().string(), ExitCode::kUsage);
    return athanor::cli::fail(refused.code(), refused.what(), arguments);
  } catch (const std::bad_alloc&) {
    return athanor::cli::fail(ExitCode::kResources, "out of memory", arguments);
  } catch (const std::exception& error) {
    return athanor::cli::fail(ExitCode::kBug, std::string("a bug of ours: ") + error.what(),
                              arguments);
  }
}
