// The verbs of the command line: one file a verb, and no logic in it. A verb's file declares its
// options, calls one function of a lower floor and prints what that returns.
//
// To add a verb: write src/cli/<verb>.cpp with `void add_<verb>(CLI::App& app)`, declare it here
// and call it in main.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace athanor::cli {

/// A verb of `parent` (the program itself, or a group such as `tokenizer`) with a line of help and
/// an example, which is a whole command line without the leading "athanor ".
CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& help,
                   const std::string& example);
/// A verb that only holds verbs: `tokenizer`, `data`, `checkpoint`, `eval`, `bench`, `plan`.
CLI::App* add_group(CLI::App& parent, const std::string& name, const std::string& help);
/// --json: stdout is one object.
void add_json_flag(CLI::App& verb, bool& json);
/// What a number may be. Of reals `above` leaves the least one out.
template <class T>
struct Range {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
  bool above = false;
};
/// An option that takes a whole number. Decimal digits only and no overflow: CLI11 alone would take -1 for a huge unsigned
/// number, 010 for 8 and cap what is too large.
CLI::Option* add_number(CLI::App& verb, const std::string& names, int64_t& value,
                        const std::string& help, const Range<int64_t>& range);
CLI::Option* add_number(CLI::App& verb, const std::string& names, int32_t& value,
                        const std::string& help, const Range<int32_t>& range);
CLI::Option* add_number(CLI::App& verb, const std::string& names, uint64_t& value,
                        const std::string& help, const Range<uint64_t>& range = {});
CLI::Option* add_number(CLI::App& verb, const std::string& names, std::optional<int64_t>& value,
                        const std::string& help, const Range<int64_t>& range);
/// An option that takes a finite number, such as 0.8 or 1e-3.
CLI::Option* add_number(CLI::App& verb, const std::string& names, double& value,
                        const std::string& help, const Range<double>& range);
/// --precision bf16|fp32.
void add_precision(CLI::App& verb, std::string& precision);

// The verbs, in the order of --help.
void add_train(CLI::App& app);
void add_generate(CLI::App& app);
void add_probe(CLI::App& app);
void add_eval(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_data(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_plan(CLI::App& app);
void add_bench(CLI::App& app);

}  // namespace athanor::cli
