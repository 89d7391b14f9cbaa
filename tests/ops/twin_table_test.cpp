// Runs the table of all ops beside their plain twins (twin_table.h).
#include "ops/twin_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "base/files.h"

namespace athanor::ops::testing {
namespace {

std::vector<TwinRow>& table() {
  static std::vector<TwinRow> rows;
  return rows;
}

std::set<std::pair<std::string, std::string>>& runs() {
  static std::set<std::pair<std::string, std::string>> seen;
  return seen;
}

/// The functions of src/ops that take a Context first, but those that measure the machine.
std::set<std::string> declared_ops() {
  std::set<std::string> found;
  const std::regex declaration(R"(^[a-z_:0-9A-Z]+ ([a-z_0-9]+)\((const )?Context& ctx)");
  for (const auto& entry : fs::directory_iterator(fs::path(ATHANOR_SOURCE_DIR) / "src" / "ops")) {
    const std::string name = entry.path().filename().string();
    // matrix_internal.h and checks.h are for ops themselves.
    if (!name.ends_with(".h") || name == "matrix_internal.h" || name == "checks.h") continue;
    std::istringstream text(read_file(entry.path(), ExitCode::kBug));
    for (std::string line; std::getline(text, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, declaration)) continue;
      if (!match[1].str().starts_with("measure_")) found.insert(match[1]);
    }
  }
  return found;
}

class TwinTable : public ::testing::TestWithParam<TwinRow> {};

TEST_P(TwinTable, EqualsTheTwin) {
  const TwinRow& row = GetParam();
  runs().clear();
  row.compare();
  for (const std::string& op : row.ops) {
    for (const Isa isa : instruction_sets()) {
      EXPECT_TRUE(runs().contains({op, std::string(name_of(isa))}))
          << op << " was not compared on " << name_of(isa);
    }
    if (row.on == On::kTilesToo) {
      EXPECT_TRUE(runs().contains({op, std::string(kModelledTiles)}))
          << op << " was not compared on the model of the tile unit";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, TwinTable, ::testing::ValuesIn(table()),
                         [](const auto& row) { return row.param.name; });

TEST(TwinTable, HasARowForEveryOp) {
  std::set<std::string> covered;
  for (const TwinRow& row : table()) covered.insert(row.ops.begin(), row.ops.end());
  const std::set<std::string> declared = declared_ops();
  EXPECT_GT(declared.size(), 40U) << "are the headers read at all?";
  for (const std::string& op : declared) {
    EXPECT_TRUE(covered.contains(op)) << op << " has no row: TWIN_ROW in tests/ops";
  }
  for (const std::string& op : covered) {
    EXPECT_TRUE(declared.contains(op)) << op << " has a row, and no header in src/ops names it";
  }
}

}  // namespace

bool add_twin_row(TwinRow row) {
  table().push_back(std::move(row));
  return true;
}

void saw(std::string_view op, std::string_view family) { runs().emplace(op, family); }

}  // namespace athanor::ops::testing
