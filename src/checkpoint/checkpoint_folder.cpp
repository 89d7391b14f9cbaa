// A run's checkpoints/ folder: which is the newest, and which are old.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"

namespace athanor::checkpoint {
namespace {

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kTemporary = ".tmp";

// The step in "step-00000012"; nothing for any other name.
std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || rest != end || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

// Directories of checkpoints by step, newest first.
std::vector<std::pair<int64_t, fs::path>> checkpoints_in(const fs::path& folder) {
  std::vector<std::pair<int64_t, fs::path>> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto step = step_of(entry->path().filename().string());
    std::error_code ignored;
    if (step && entry->is_directory(ignored)) found.emplace_back(*step, entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw system_error(error.value(), "list", folder.string(), ExitCode::kData);
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw system_error(error.value(), "remove", path.string(), ExitCode::kResources);
}

/// What a crash left of saves and removals.
void remove_temporaries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kTemporary)) found.push_back(entry->path());
  }
  for (const fs::path& path : found) remove_tree(path);
}

}  // namespace

LatestCheckpoint latest_valid(const fs::path& folder) {
  LatestCheckpoint latest;
  for (const auto& [step, path] : checkpoints_in(folder)) {
    try {
      Checkpoint checkpoint = Checkpoint::open(path);
      if (checkpoint.step() != step) {
        throw data_error(
            fmt::format("{}: its manifest is of step {}", path.string(), checkpoint.step()));
      }
      checkpoint.verify();
      latest.checkpoint = std::move(checkpoint);
      return latest;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kData) throw;
      latest.damaged.push_back({path, error.what()});
    }
  }
  return latest;
}

std::vector<int64_t> prune(const fs::path& folder, int keep) {
  require(keep >= 1, "pruning would remove every checkpoint");
  remove_temporaries(folder);
  std::vector<int64_t> removed;
  int complete = 0;
  for (const auto& [step, path] : checkpoints_in(folder)) {
    try {
      Checkpoint::open(path);
    } catch (const Error&) {
      continue;  // damaged: counts as none, and a person may want to look at it
    }
    if (++complete <= keep) continue;
    // It loses its name before its first byte, so that a crash here leaves no half of one.
    fs::path doomed = path;
    doomed += ".removed";
    doomed += kTemporary;
    rename_file(path, doomed, ExitCode::kResources);
    remove_tree(doomed);
    removed.push_back(step);
  }
  return removed;
}

int64_t abandon(const fs::path& folder, int64_t step) {
  int64_t abandoned = 0;
  for (const auto& [number, path] : checkpoints_in(folder)) {
    if (number <= step) break;
    const fs::path name = "abandoned-" + path.filename().string();
    fs::path to = folder / name;
    for (int n = 2; fs::exists(to); ++n) to = folder / fmt::format("{}-{}", name.string(), n);
    rename_file(path, to);
    ++abandoned;
  }
  return abandoned;
}

std::string inspect_json(const Manifest& manifest) {
  using nlohmann::ordered_json;
  const auto parsed = [](const std::string& text) {
    return text.empty() ? ordered_json(nullptr) : ordered_json::parse(text);
  };
  ordered_json files = ordered_json::array();
  uint64_t bytes = 0;
  for (const StoredFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
    bytes += file.bytes;
  }
  ordered_json tensors = ordered_json::array();
  int64_t parameters = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    ordered_json slices = ordered_json::array();
    for (const StoredSlice& slice : tensor.slices) {
      slices.push_back({{"file", slice.file}, {"offset", slice.offset}, {"length", slice.length}});
    }
    tensors.push_back({{"name", tensor.name},
                       {"dtype", name_of(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"slices", std::move(slices)}});
    const bool weight =
        !tensor.name.starts_with("optimizer.") && !tensor.name.ends_with(".balancing_biases");
    if (weight) parameters += tensor.numel();
  }
  return ordered_json{{"step", manifest.step},
                      {"ranks", manifest.ranks},
                      {"parameters", parameters},
                      {"bytes", bytes},
                      {"config", manifest.config},
                      {"data_cursor", parsed(manifest.data_cursor)},
                      {"random_state", parsed(manifest.random_state)},
                      {"state", parsed(manifest.state)},
                      {"files", std::move(files)},
                      {"tensors", std::move(tensors)}}
      .dump(2);
}

}  // namespace athanor::checkpoint
