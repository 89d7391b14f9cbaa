// What the verbs of `athanor bench` share.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "advisor/op_figures.h"

namespace CLI {
class App;
}  // namespace CLI

namespace athanor::cli {

void add_bench_decode(CLI::App& group);
void add_bench_memory(CLI::App& group);
void add_bench_step(CLI::App& group);

nlohmann::json ceilings_json(const advisor::Ceilings& ceilings);
/// "ops", the longest first, and "outside_seconds".
void add_ops(nlohmann::json& object, const advisor::OpTable& table);

}  // namespace athanor::cli
