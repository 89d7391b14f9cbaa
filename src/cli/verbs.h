// The verbs of the command line: one file a verb, and no logic in it. A verb's file declares its
// options, calls one function of a lower floor and prints what that returns.
//
// To add a verb: write src/cli/<verb>.cpp with `void add_<verb>(CLI::App& app)`, declare it here
// and call it in main.cpp.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace athanor::cli {

/// A verb of `parent` (the program itself, or a group such as `tokenizer`) with a line of help and
/// an example, which is a whole command line without the leading "athanor ".
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& help,
                   const std::string& example);
/// A verb that only holds verbs: `tokenizer`, `data`, `checkpoint`, `eval`, `bench`, `plan`.
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help);
/// --json: stdout is one object.
void add_json_flag(CLI::App& verb, bool& json);
/// --precision bf16|fp32.
void add_precision(CLI::App& verb, std::string& precision);

// The verbs, in the order of --help.
void add_generate(CLI::App& app);
void add_eval(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_data(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace athanor::cli
