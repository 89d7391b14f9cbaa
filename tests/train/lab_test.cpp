// What lab.h declares (a *_test.cpp, so that the build takes it along), and the child process's entry.
#include "train/lab.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/random.h"
#include "checkpoint/checkpoint.h"

namespace athanor::train::testing {

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

std::string read(const fs::path& path) {
  std::stringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

std::string make_text(int documents, uint64_t seed) {
  const std::vector<std::string> who = {"the cat", "a dog", "the old man", "my sister"};
  const std::vector<std::string> does = {"sees", "likes", "follows", "finds"};
  const std::vector<std::string> what = {"the house", "a red ball", "the river", "some bread"};
  RandomStream stream(seed, 77);
  const auto one = [&](const std::vector<std::string>& words) {
    return words[stream.below(words.size())];
  };
  std::string text;
  for (int d = 0; d < documents; ++d) {
    if (d > 0) text += "\n<|endoftext|>\n";
    for (int s = 0; s < 12; ++s) text += one(who) + " " + one(does) + " " + one(what) + ". ";
  }
  return text;
}

std::string small_config() {
  return R"(
precision = "fp32"
seed = 3
[model]
layers = 2
hidden = 32
query_heads = 2
key_value_heads = 2
head_size = 8
experts = 3
expert_inner = 24
router = 8
[tokenizer]
kind = "bytes"
[data]
heldout = 0.1
[batch]
sequences = 8
micro_batch = 2
reduction_groups = 2
[[phases]]
name = "train"
tokens = 3072
sequence = 32
learning_rate = 1e-2
final_learning_rate = 1e-3
schedule = "cosine"
warmup_steps = 2
[optimizer]
newton_schulz_precision = "fp32"
[validation]
interval_steps = 5
documents = 2
[checkpoint]
interval_steps = 4
keep = 3
)";
}

Lab::Lab() {
  write(folder / "text.txt", make_text(40));
  write(folder / "small.toml", small_config());
}

TrainOptions Lab::options(const std::string& out, std::vector<std::string> overrides) const {
  TrainOptions options;
  options.config = folder / "small.toml";
  options.data = (folder / "text.txt").string();
  options.out = folder / out;
  options.overrides = std::move(overrides);
  return options;
}

std::vector<nlohmann::json> read_lines(const fs::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<nlohmann::json> steady_metrics(const fs::path& run) {
  std::vector<nlohmann::json> lines = read_lines(run / "metrics.jsonl");
  for (nlohmann::json& line : lines) {
    for (const char* key :
         {"seconds", "tokens_per_second", "ceiling_share", "data_wait_seconds", "memory_bytes"}) {
      EXPECT_EQ(line.erase(key), 1u) << key;
    }
  }
  return lines;
}

std::vector<std::string> event_names(const fs::path& run) {
  std::vector<std::string> names;
  for (const nlohmann::json& line : read_lines(run / "events.jsonl"))
    names.push_back(line["event"]);
  return names;
}

std::map<std::string, std::string> fingerprint(const fs::path& path) {
  const checkpoint::Checkpoint checkpoint = checkpoint::Checkpoint::open(path);
  checkpoint.verify();
  std::map<std::string, std::string> out;
  for (const checkpoint::StoredTensor& tensor : checkpoint.manifest().tensors) {
    for (const checkpoint::StoredSlice& slice : tensor.slices) {
      out[tensor.name] += slice.checksum + " ";
    }
  }
  out["data cursor"] = checkpoint.manifest().data_cursor;
  out["random state"] = checkpoint.manifest().random_state;
  out["state"] = checkpoint.manifest().state;
  return out;
}

namespace {

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + "\n";
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

/// The other end of Child: options come as a file of lines, the exit code is the program's.
TEST(ChildProcess, DISABLED_Train) {
  const char* file = std::getenv("ATHANOR_TEST_CHILD");
  ASSERT_NE(file, nullptr) << "run by Child alone";
  const std::vector<std::string> lines = lines_of(read(file));
  TrainOptions options;
  options.config = lines.at(0);
  if (!lines.at(1).empty()) options.data = lines[1];
  options.out = lines.at(2);
  options.resume = lines.at(3);
  if (!lines.at(4).empty()) options.steps = std::stoll(lines[4]);
  options.overrides.assign(lines.begin() + 5, lines.end());
  int code = 0;
  try {
    train(options);
  } catch (const Error& error) {
    fprintf(stderr, "athanor: %s\n", error.what());
    code = static_cast<int>(error.code());
  }
  std::_Exit(code);
}

Child::Child(const TrainOptions& options, std::vector<std::string> environment) {
  std::vector<std::string> words = {options.config.string(), options.data.value_or(""),
                                    options.out.string(), options.resume,
                                    options.steps ? std::to_string(*options.steps) : ""};
  words.insert(words.end(), options.overrides.begin(), options.overrides.end());
  write(folder_ / "options", join(words));
  environment.push_back("ATHANOR_TEST_CHILD=" + (folder_ / "options").string());
  const std::string errors_file = (folder_ / "stderr").string();
  pid_ = fork();
  if (pid_ == 0) {
    // Until exec nothing that a lock of the parent's threads could hold.
    const int fd = ::open(errors_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(fd, STDERR_FILENO);
    dup2(fd, STDOUT_FILENO);
    for (std::string& entry : environment) putenv(entry.data());
    execl("/proc/self/exe", "test_train", "--gtest_also_run_disabled_tests",
          "--gtest_filter=ChildProcess.DISABLED_Train", nullptr);
    std::_Exit(127);
  }
}

Child::~Child() {
  if (code_ < 0) {
    kill(pid_, SIGKILL);
    wait();
  }
}

void Child::signal(int number) const { kill(pid_, number); }

void Child::collect(int status) {
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  errors = read(folder_ / "stderr");
}

bool Child::running() {
  int status = 0;
  if (code_ < 0 && waitpid(pid_, &status, WNOHANG) == pid_) collect(status);
  return code_ < 0;
}

int Child::wait() {
  int status = 0;
  if (code_ < 0 && waitpid(pid_, &status, 0) == pid_) collect(status);
  return code_;
}

int run_child(const TrainOptions& options, std::string* errors,
              std::vector<std::string> environment) {
  Child child(options, std::move(environment));
  const int code = child.wait();
  if (errors != nullptr) *errors = child.errors;
  return code;
}

void wait_for_steps(const fs::path& run, size_t lines, Child& child) {
  const auto start = std::chrono::steady_clock::now();
  while (child.running() && std::chrono::steady_clock::now() - start < std::chrono::minutes(1)) {
    const std::string content = read(run / "metrics.jsonl");
    if (static_cast<size_t>(std::count(content.begin(), content.end(), '\n')) >= lines) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace athanor::train::testing
