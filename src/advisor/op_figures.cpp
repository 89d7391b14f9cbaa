#include "advisor/op_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "base/error.h"

namespace athanor::advisor {
namespace {

constexpr double kSmall = 0.002;

/// Figures being summed, and what bounds them.
struct Sum {
  OpFigures figures;
  double product_seconds = 0, memory_seconds = 0, bf16_flops = 0;
};

void add(Sum& sum, const ops::TraceEntry& entry, const Ceilings& ceilings) {
  sum.figures.calls += static_cast<double>(entry.calls);
  sum.figures.seconds += entry.seconds;
  sum.figures.flops += entry.flops();
  sum.figures.bytes += entry.bytes;
  sum.bf16_flops += entry.bf16_flops;
  sum.product_seconds += entry.bf16_flops / ceilings.bf16_flops +
                         (entry.f32_flops + entry.f64_flops) / ceilings.f32_flops;
  sum.memory_seconds += entry.bytes / ceilings.read_bytes;
}

OpFigures mean(const Sum& sum, double runs, double run_seconds) {
  OpFigures figures = sum.figures;
  figures.calls /= runs;
  figures.seconds /= runs;
  figures.flops /= runs;
  figures.bytes /= runs;
  figures.share = figures.seconds / run_seconds;
  const bool products = sum.product_seconds >= sum.memory_seconds;
  figures.bound_seconds = (products ? sum.product_seconds : sum.memory_seconds) / runs;
  const bool bf16 = 2 * sum.bf16_flops >= sum.figures.flops;
  figures.bound = !products ? "memory" : bf16 ? "bf16" : "fp32";
  return figures;
}

std::string row(const OpFigures& op) {
  const auto rate = [&](double amount) {
    return amount > 0 && op.seconds > 0 ? fmt::format("{:.1f}", amount / op.seconds / 1e9)
                                        : std::string("-");
  };
  return fmt::format(
      "{:<19}{:<26}{:<20}{:>7.0f}{:>10.2f}{:>8.1f}{:>10.2f}{:>10}{:>8}  {:<7}{:>7}\n", op.part,
      op.op, op.shape, op.calls, op.seconds * 1e3, op.share * 100, op.flops / 1e9, rate(op.flops),
      rate(op.bytes), op.bound,
      op.bound.empty() ? "" : fmt::format("{:.0f} %", op.reached() * 100));
}

}  // namespace

std::vector<TracedRun> middle_runs(std::vector<TracedRun> runs) {
  std::ranges::sort(runs, std::ranges::less{}, &TracedRun::seconds);
  const auto dropped = static_cast<std::ptrdiff_t>((runs.size() + 1) / 4);
  return {std::make_move_iterator(runs.begin() + dropped),
          std::make_move_iterator(runs.end() - dropped)};
}

OpTable tabulate(const std::vector<TracedRun>& runs) {
  require(!runs.empty(), "figures of no run");
  std::map<std::tuple<std::string_view, std::string_view, ops::OpShape>, Sum> sums;
  OpTable table;
  for (const TracedRun& run : runs) {
    table.seconds += run.seconds;
    for (const ops::TraceEntry& entry : run.entries) {
      add(sums[{entry.part, entry.op, entry.shape}], entry, run.ceilings);
    }
  }
  const auto count = static_cast<double>(runs.size());
  table.seconds /= count;
  table.outside_seconds = table.seconds;
  for (auto& [key, sum] : sums) {
    sum.figures.part = std::get<0>(key);
    sum.figures.op = std::get<1>(key);
    sum.figures.shape = ops::to_text(std::get<2>(key));
    table.ops.push_back(mean(sum, count, table.seconds));
    table.outside_seconds -= table.ops.back().seconds;
  }
  std::ranges::sort(table.ops, std::ranges::greater{}, &OpFigures::seconds);
  return table;
}

std::string to_text(const OpTable& table, const std::string& what) {
  std::string text = fmt::format(
      "{:<19}{:<26}{:<20}{:>7}{:>10}{:>8}{:>10}{:>10}{:>8}  {:<7}{:>7}\n", "part", "op", "shape",
      "calls", "ms", "share %", "GFLOP", "GFLOP/s", "GB/s", "bound", "reached");
  OpFigures small{.part = "", .op = "smaller ones together"};
  OpFigures all{.part = "", .op = what};
  for (const OpFigures& op : table.ops) {
    all.calls += op.calls;
    all.flops += op.flops;
    if (op.share >= kSmall) {
      text += row(op);
      continue;
    }
    small.calls += op.calls;
    small.seconds += op.seconds;
    small.share += op.share;
    small.flops += op.flops;
    small.bytes += op.bytes;
  }
  if (small.calls > 0) text += row(small);
  all.seconds = table.seconds;
  all.share = 1;
  text += row({.part = "",
               .op = "outside ops",
               .seconds = table.outside_seconds,
               .share = table.outside_seconds / table.seconds});
  return text + row(all);
}

}  // namespace athanor::advisor
