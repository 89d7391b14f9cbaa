#include "train/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/memory.h"
#include "ops/matrix.h"
#include "train/step.h"
#include "train/validation.h"

namespace athanor::train {
namespace {

std::string holds(const Arena& arena, const Arenas& arenas, const Workspace& workspace,
                  const Config& config) {
  if (&arena == &arenas.parameters) {
    return workspace.partition.ranks() == 1
               ? "master weights, fp32, and the balancing biases"
               : "embedding and vectors, the owned matrices, fp32, and the balancing biases";
  }
  if (&arena == &arenas.packed) return "weights as the kernels read them, rotary tables";
  if (&arena == &arenas.gradients) {
    return fmt::format("{} accumulator{}, fp32", workspace.accumulators.size(),
                       workspace.accumulators.size() == 1 ? "" : "s");
  }
  if (&arena == &arenas.optimizer) {
    return config.optimizer.kind == optim::OptimizerKind::kMuon
               ? "Muon's momentum, AdamW's moments, fp32"
               : "AdamW's moments, fp32";
  }
  if (&arena == &arenas.batch) return "ids and targets of one step";
  if (&arena == &arenas.activations) {
    return fmt::format("a micro-batch of {} × {} tokens", config.batch.micro_batch,
                       longest_sequence(config));
  }
  return "what an op needs while it runs";
}

}  // namespace

uint64_t MemoryPlan::total() const {
  uint64_t sum = 0;
  for (const ArenaPlan& arena : arenas) sum += arena.bytes;
  return sum;
}

MemoryPlan plan_memory(const Config& config, const Threads& threads, Place place) {
  Arenas arenas;
  Workspace workspace(config, place, arenas);
  comm::Communicator communicator;
  ops::Context ctx(threads, arenas.scratch);
  workspace.parameters.initialise(ctx, 0);
  StepRunner(config, workspace, place, communicator).plan(ctx);
  plan_validation(config, ctx, workspace.model, arenas.activations);
  ops::measure_matrix_ceiling(ctx, ops::act_dtype(precision_of(config)), 0);

  MemoryPlan plan;
  plan.parameters = model::count_parameters(workspace.geometry);
  for (const Arena* arena : arenas.all()) {
    plan.arenas.push_back({arena->name(), holds(*arena, arenas, workspace, config), arena->peak()});
  }
  if (place.ranks > 1) {
    plan.arenas.push_back({"exchange", "parts of sums that arrive from other ranks",
                           comm::staging_of(place.ranks, 1, part_bytes(config)).bytes});
  }
  return plan;
}

std::string to_text(const MemoryPlan& plan) {
  std::string text = fmt::format("{} parameters, {} of them active for a token\n\n",
                                 plan.parameters.total, plan.parameters.active_with_head);
  for (const ArenaPlan& arena : plan.arenas) {
    text += fmt::format("{:<16} {:>20} bytes  {:>10}  {}\n", arena.name, arena.bytes,
                        size_text(arena.bytes), arena.holds);
  }
  text +=
      fmt::format("{:<16} {:>20} bytes  {:>10}\n", "in all", plan.total(), size_text(plan.total()));
  return text;
}

void reserve(const MemoryPlan& plan, Arenas& arenas) {
  const auto largest =
      std::max_element(plan.arenas.begin(), plan.arenas.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  require_memory(fmt::format("this config ({} alone {}; athanor plan memory shows all)",
                             largest->name, size_text(largest->bytes)),
                 plan.total());
  const auto all = arenas.all();
  for (size_t i = 0; i < all.size(); ++i) all[i]->reserve(plan.arenas[i].bytes);
}

}  // namespace athanor::train
