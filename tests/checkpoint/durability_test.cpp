// That a crash at any moment of a save or an export leaves the old one, or the new one whole.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/tiny_parameters.h"
#include "support/file_calls.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)

/// Everything in `made` was synced under `temporary` before call `named`, which gives the folder its name, the folder
/// itself after its last entry, and the parent's entry after.
void expect_durable(const FileCalls& calls, const fs::path& temporary, const fs::path& made) {
  const size_t named = calls.rename_to(made);
  ASSERT_LT(named, calls.all().size()) << calls.text();
  EXPECT_EQ(calls.all()[named].path, temporary);
  size_t last_entry = 0;
  for (const auto& entry : fs::directory_iterator(made)) {
    fs::path written = temporary / entry.path().filename();
    const size_t moved = calls.rename_to(written);
    if (moved < calls.all().size()) {
      written = calls.all()[moved].path;
      last_entry = std::max(last_entry, moved);
    }
    EXPECT_TRUE(calls.synced(written, 0, named)) << written << " in\n" << calls.text();
    last_entry = std::max(last_entry, calls.sync_of(written));
  }
  EXPECT_TRUE(calls.synced(temporary, last_entry, named)) << calls.text();
  EXPECT_TRUE(calls.synced(made.parent_path(), named, calls.all().size())) << calls.text();
}

fs::path save(const fs::path& folder, OwnParameters& parameters) {
  const CheckpointInfo info{7, "seed = 1\n", "{}", "{}", "{}"};
  const std::vector<SideFile> sides{{"tokenizer.json", "{}"}};
  return save_checkpoint(folder, info, parameters->config(), slices_of(*parameters), sides);
}

TEST(Durability, ACheckpointIsOnTheDiskBeforeItHasItsName) {
  const ScratchFolder folder;
  OwnParameters parameters;
  parameters.count_up();
  const FileCalls calls;
  const fs::path made = save(folder.path(), parameters);
  expect_durable(calls, folder / "step-00000007.tmp", made);
}

TEST(Durability, ASecondSaveOfAStepChangesPlacesWithTheFirst) {
  const ScratchFolder folder;
  OwnParameters parameters;
  parameters.count_up();
  save(folder.path(), parameters);
  const FileCalls calls;
  const fs::path made = save(folder.path(), parameters);
  const size_t named = calls.rename_to(made);
  ASSERT_LT(named, calls.all().size()) << calls.text();
  EXPECT_TRUE(calls.all()[named].replaces) << "for a moment there was no checkpoint of that name";
}

TEST(Durability, AnExportedModelIsOnTheDiskBeforeItHasItsName) {
  const ScratchFolder folder;
  OwnParameters parameters;
  parameters.count_up();
  const FileCalls calls;
  export_model(folder / "model", parameters->config(), weights_of(*parameters), {}, {});
  const size_t named = calls.rename_to(folder / "model");
  ASSERT_LT(named, calls.all().size()) << calls.text();
  expect_durable(calls, calls.all()[named].path, folder / "model");
}

}  // namespace
}  // namespace athanor::test
