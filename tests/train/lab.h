// Small runs for tests: a text, a config, a temporary folder, and runs in a process of their own.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files.h"
#include "support/scratch.h"
#include "train/train.h"

namespace athanor::train::testing {

using TemporaryFolder = test::ScratchFolder;

void write(const fs::path& path, const std::string& content);
std::string read(const fs::path& path);

/// Sentences of a small grammar, cut into `documents` by lines `<|endoftext|>`: easy to learn, the same for a seed.
std::string make_text(int documents, uint64_t seed = 1);

/// A model of a few thousand parameters on raw bytes, fp32, 12 steps of 8 sequences of 32 bytes.
std::string small_config();

/// Text and config in a folder, and the options that train them into `out`.
struct Lab {
  Lab();
  TrainOptions options(const std::string& out, std::vector<std::string> overrides = {}) const;
  fs::path out(const std::string& name) const { return folder / name; }
  TemporaryFolder folder;
};

/// Lines of a .jsonl file; throws on one that is no JSON.
std::vector<nlohmann::json> read_lines(const fs::path& path);
/// metrics.jsonl without what belongs to the machine and the hour.
std::vector<nlohmann::json> steady_metrics(const fs::path& run);
/// Names of the events of a run, in order.
std::vector<std::string> event_names(const fs::path& run);
/// The checksum of every tensor of a checkpoint, and what else the next step depends on.
std::map<std::string, std::string> fingerprint(const fs::path& checkpoint);

/// train() in a process of its own, so that it can be killed: see child_test.cpp.
class Child {
 public:
  /// Starts it with extra environment entries ("NAME=value").
  explicit Child(const TrainOptions& options, std::vector<std::string> environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void signal(int number) const;
  bool running();
  /// Exit code, or 128 + the signal that ended it; what it wrote on stderr is in `errors`.
  int wait();
  std::string errors;

 private:
  void collect(int status);
  int pid_ = -1;
  int code_ = -1;
  TemporaryFolder folder_;
};

/// Runs `options` to the end in a child.
int run_child(const TrainOptions& options, std::string* errors = nullptr,
              std::vector<std::string> environment = {});

/// Waits until metrics.jsonl of `run` has `lines` lines, or a minute has passed, or the child has ended.
void wait_for_steps(const fs::path& run, size_t lines, Child& child);

}  // namespace athanor::train::testing
