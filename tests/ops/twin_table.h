// The table of all ops beside their plain twins. A test file adds rows, twin_table_test.cpp runs them,
// sees that each op of a row ran on every family of kernels, and that no op lacks a row.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/context.h"
#include "ops/cpu/cpu_features.h"
#include "ops/trace.h"

namespace athanor::ops::testing {

/// Every family that this CPU has.
inline const std::vector<Isa>& instruction_sets() { return cpu::families().usable; }

enum class On : uint8_t {
  kThisCpu,   ///< every family of this CPU
  kTilesToo,  ///< and the model of the tile unit (matrix_tile_model.h)
};
/// What runs on the model are counted under.
constexpr std::string_view kModelledTiles = "modelled tiles";

struct TwinRow {
  std::string name;
  On on;
  std::vector<std::string> ops;
  void (*compare)();  ///< over odd shapes; fails as a test does
};

inline void PrintTo(  // NOLINT(readability-identifier-naming): GoogleTest looks for this name
    const TwinRow& row, std::ostream* out) {
  *out << row.name;
}

bool add_twin_row(TwinRow row);
/// `op` ran on `family` (a name of Isa, or kModelledTiles), compared with its twin.
void saw(std::string_view op, std::string_view family);

/// A context that tells saw() of the ops that it ran.
class WatchedContext {
 public:
  WatchedContext(int threads, Arena& scratch, Isa isa) : ctx_(Threads(threads), scratch, isa) {
    ctx_.set_trace(&trace_);
  }
  ~WatchedContext() {
    for (const TraceEntry& entry : trace_.entries()) saw(entry.op, name_of(ctx_.isa()));
  }
  WatchedContext(const WatchedContext&) = delete;
  WatchedContext& operator=(const WatchedContext&) = delete;
  Context& get() { return ctx_; }

 private:
  Trace trace_;
  Context ctx_;
};

/// TWIN_ROW(name, families, "op", …) { body }: a row of the table; the body compares these ops.
#define TWIN_ROW(row, families, ...)                                                     \
  void row##_row();                                                                      \
  [[maybe_unused]] const bool row##_row_added =                                          \
      ::athanor::ops::testing::add_twin_row({#row, families, {__VA_ARGS__}, row##_row}); \
  void row##_row()

}  // namespace athanor::ops::testing
