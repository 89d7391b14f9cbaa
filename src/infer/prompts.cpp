#include "infer/prompts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "data/chat_template.h"
#include "infer/stop_strings.h"

namespace athanor::infer {
namespace {

constexpr int64_t kDefaultMaxTokens = 256;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::string read_standard_input() {
  std::string text;
  std::vector<char> buffer(size_t{1} << 16);
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n > 0) text.append(buffer.data(), static_cast<size_t>(n));
    if (n == 0) return text;
    if (n < 0 && errno != EINTR) {
      throw system_error(errno, "read", "standard input", ExitCode::kData);
    }
  }
}

}  // namespace

std::vector<int32_t> text_ids(const ModelFiles& files, std::string_view text) {
  std::vector<int32_t> ids = files.require_tokenizer().encode(text);
  if (files.bos >= 0) ids.insert(ids.begin(), files.bos);
  if (ids.empty()) {
    throw data_error("the prompt is empty, and this model has no BOS token to begin with");
  }
  return ids;
}

std::vector<int32_t> parse_ids(std::string_view text, int64_t vocab) {
  std::vector<int32_t> ids;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view word = trimmed(text.substr(0, comma));
    int64_t id = -1;
    const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), id);
    const bool whole = end == word.data() + word.size() && !word.empty();
    if (!whole || fault == std::errc::invalid_argument) {
      throw usage_error(fmt::format("--ids: '{}' is not a token id; write them as 1,2,3", word));
    }
    if (fault != std::errc() || id < 0 || id >= vocab) {
      throw usage_error(
          fmt::format("--ids: token {} is outside the model's vocabulary of {} (ids 0 to {})", word,
                      vocab, vocab - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

std::string read_prompt_file(const fs::path& path) {
  return path == "-" ? read_standard_input() : read_file(path);
}

Prompt make_prompt(const ModelFiles& files, std::vector<int32_t> ids, const WritingOptions& options,
                   std::optional<int64_t> max_tokens) {
  const model::ModelConfig& config = files.config();
  const auto length = static_cast<int64_t>(ids.size());
  const int64_t room = config.max_positions - length;
  if (!max_tokens) max_tokens = options.max_tokens;
  if (max_tokens && *max_tokens < 1) {
    throw usage_error(fmt::format("--max-tokens {} must be at least 1", *max_tokens));
  }
  const int64_t wanted = max_tokens.value_or(std::min(kDefaultMaxTokens, room));
  if (wanted < 1 || wanted > room) {
    throw usage_error(fmt::format(
        "a prompt of {} tokens and {} more do not fit into this model's context of {}; shorten the "
        "prompt or lower --max-tokens",
        length, std::max<int64_t>(wanted, 1), config.max_positions));
  }
  Prompt prompt{.ids = std::move(ids),
                .options = {.sampling = options.sampling, .max_tokens = wanted}};
  if (!options.ignore_eos) {
    for (const int64_t token : config.stop_tokens()) {
      prompt.options.stop_tokens.push_back(static_cast<int32_t>(token));
    }
  }
  return prompt;
}

void stop_at_turn_end(const ModelFiles& files, GenerationOptions& options,
                      std::vector<std::string>& stop) {
  const std::vector<int32_t> end = files.require_tokenizer().encode(data::kTurnEnd);
  if (end.size() == 1) {
    options.stop_tokens.push_back(end[0]);
  } else {
    stop.emplace_back(data::kTurnEnd);
  }
}

void check_writing(const ModelFiles& files, const WritingOptions& options) {
  options.sampling.validate();
  check_stop_strings(options.stop);
  if (!options.stop.empty()) files.require_tokenizer();
}

}  // namespace athanor::infer
