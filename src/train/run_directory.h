// A run directory: what a person or a tool wants to know about a run is in it (DESIGN §2).
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/files.h"
#include "base/new_directories.h"

namespace athanor::train {

/// An open run directory, locked against a second run until destroyed. One that holds no run by then keeps no trace of this:
/// the lock goes, and so do folders made here.
class RunDirectory {
 public:
  /// Creates the folder if need be. Throws kUsage when it cannot be written, is in use by another process, or holds files
  /// but no run.
  explicit RunDirectory(fs::path path);
  /// The directory as ranks other than the first see it: whatever would write does nothing.
  struct Follower {};
  RunDirectory(fs::path path, Follower);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  /// True on the rank that writes.
  bool leads() const { return lock_ != nullptr; }
  const fs::path& path() const { return path_; }
  fs::path config() const { return path_ / "config.toml"; }
  fs::path checkpoints() const { return path_ / "checkpoints"; }
  fs::path tensorboard() const { return path_ / "tensorboard"; }
  fs::path tokenizer() const { return path_ / "tokenizer"; }
  fs::path held_out() const { return path_ / "heldout.jsonl"; }
  fs::path model() const { return path_ / "model"; }
  /// What a rank of many said.
  fs::path log(int rank) const;
  /// Packed text of the run's n-th source of text.
  fs::path shards(size_t source) const;

  /// The resolved config of the run that lies here.
  std::optional<std::string> stored_config() const;
  void write_config(std::string_view toml);

  /// Appends to events.jsonl: time, the event's name, the step, then `fields`.
  void event(std::string_view name, int64_t step, const nlohmann::ordered_json& fields);
  /// Appends a line to metrics.jsonl.
  void metrics(std::string_view line);
  /// Makes metrics.jsonl and events.jsonl durable.
  void sync();

  /// Cuts metrics.jsonl behind `step`; the cut lines go to events.jsonl first, as one event. Returns their number.
  int64_t cut_metrics(int64_t step);
  /// Moves what a run left (config, metrics, events, checkpoints, tensorboard, model) into `previous-NNN`, so that another
  /// one can begin here; tokenizer and shards stay. Returns that folder.
  fs::path set_aside();
  /// Removes the config, metrics, events and TensorBoard files of a start that came to nothing.
  void withdraw();

 private:
  fs::path metrics_path() const { return path_ / "metrics.jsonl"; }
  fs::path path_;
  std::optional<NewDirectories> made_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<LineLog> events_;
  std::unique_ptr<LineLog> metrics_;
};

}  // namespace athanor::train
