#include "train/run_directory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace athanor::train {
namespace {

constexpr const char* kLock = ".lock";

bool empty_but_lock(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename() != kLock) return false;
  }
  return !error;
}

/// The step of a metrics line; none for a line that was cut short.
std::optional<int64_t> step_of(std::string_view line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) {
    return std::nullopt;
  }
  return json["step"].get<int64_t>();
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, Follower) : path_(std::move(path)) {}

RunDirectory::RunDirectory(fs::path path) : path_(std::move(path)), made_(path_) {
  const bool locked_before = fs::exists(path_ / kLock);
  lock_ = std::make_unique<FileLock>(
      path_ / kLock,
      path_.string() + " is in use by another run: wait for it or name another --out");
  if (!fs::exists(config()) && !empty_but_lock(path_)) {
    std::error_code ignored;
    if (!locked_before) fs::remove(path_ / kLock, ignored);
    throw usage_error(path_.string() +
                      " holds files but no run (no config.toml): name another folder with --out");
  }
}

RunDirectory::~RunDirectory() {
  if (!leads()) return;
  std::error_code ignored;
  if (!fs::exists(config(), ignored) && empty_but_lock(path_)) fs::remove(path_ / kLock, ignored);
}

void RunDirectory::withdraw() {
  if (!leads()) return;
  metrics_.reset();
  events_.reset();
  std::error_code ignored;
  fs::remove(config(), ignored);
  fs::remove(metrics_path(), ignored);
  fs::remove(path_ / "events.jsonl", ignored);
  fs::remove_all(tensorboard(), ignored);
  fs::remove_all(path_ / "logs", ignored);
}

fs::path RunDirectory::log(int rank) const {
  return path_ / "logs" / fmt::format("rank-{:05}.log", rank);
}

fs::path RunDirectory::shards(size_t source) const {
  return path_ / (source == 0 ? "shards" : fmt::format("shards-{}", source + 1));
}

std::optional<std::string> RunDirectory::stored_config() const {
  if (!fs::exists(config())) return std::nullopt;
  return read_file(config(), ExitCode::kUsage);
}

void RunDirectory::write_config(std::string_view toml) {
  if (leads()) write_file_atomically(config(), toml);
}

void RunDirectory::event(std::string_view name, int64_t step,
                         const nlohmann::ordered_json& fields) {
  if (!leads()) return;
  if (!events_) events_ = std::make_unique<LineLog>(path_ / "events.jsonl");
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  nlohmann::ordered_json line = {
      {"time", fmt::format("{:%FT%TZ}", fmt::gmtime(now))}, {"event", name}, {"step", step}};
  line.update(fields);
  events_->append(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void RunDirectory::metrics(std::string_view line) {
  if (!leads()) return;
  if (!metrics_) metrics_ = std::make_unique<LineLog>(metrics_path());
  metrics_->append(line);
}

void RunDirectory::sync() {
  if (metrics_) metrics_->sync();
  if (events_) events_->sync();
}

int64_t RunDirectory::cut_metrics(int64_t step) {
  if (!leads() || !fs::exists(metrics_path())) return 0;
  const std::string content = read_file(metrics_path(), ExitCode::kUsage);
  std::string kept;
  nlohmann::ordered_json cut = nlohmann::ordered_json::array();
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    const std::optional<int64_t> of = step_of(line);
    if (of && *of <= step) {
      kept += line + "\n";
    } else {
      auto json = nlohmann::ordered_json::parse(line, nullptr, false);
      cut.push_back(json.is_discarded() ? nlohmann::ordered_json(line) : std::move(json));
    }
  }
  if (cut.empty()) return 0;
  metrics_.reset();
  event("metrics cut", step, {{"lines", cut}});
  sync();
  write_file_atomically(metrics_path(), kept);
  return static_cast<int64_t>(cut.size());
}

fs::path RunDirectory::set_aside() {
  metrics_.reset();
  events_.reset();
  int number = 1;
  const auto folder = [&] { return path_ / fmt::format("previous-{:03}", number); };
  while (fs::exists(folder())) ++number;
  make_directories(folder());
  for (const char* name : {"metrics.jsonl", "events.jsonl", "checkpoints", "tensorboard", "logs",
                           "model", "config.toml"}) {
    if (fs::exists(path_ / name)) rename_file(path_ / name, folder() / name);
  }
  return folder();
}

}  // namespace athanor::train
