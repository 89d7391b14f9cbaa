#include "infer/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "infer/generate.h"

namespace athanor::infer {
namespace {

constexpr int64_t kDefaultMaxTokens = 256;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::vector<int32_t> text_ids(const ModelFiles& files, const std::string& prompt) {
  std::vector<int32_t> ids;
  if (files.bos >= 0) ids.push_back(files.bos);
  try {
    const std::vector<int32_t> text = files.require_tokenizer().encode(prompt);
    ids.insert(ids.end(), text.begin(), text.end());
  } catch (const Error& error) {
    throw usage_error(std::string("--prompt: ") + error.what());  // the command line's fault
  }
  if (ids.empty()) {
    throw usage_error("the prompt is empty, and this model has no BOS token to begin with");
  }
  return ids;
}

std::vector<int32_t> prompt_ids(const ModelFiles& files, const CompletionRequest& request) {
  if (request.prompt.has_value() == request.ids.has_value()) {
    throw usage_error("give a prompt: either --prompt TEXT or --ids 1,2,3");
  }
  return request.prompt ? text_ids(files, *request.prompt)
                        : parse_ids(*request.ids, files.config().vocab);
}

int64_t tokens_to_generate(const CompletionRequest& request, int64_t prompt_tokens,
                           int64_t context) {
  const int64_t room = context - prompt_tokens;
  if (request.max_tokens && *request.max_tokens < 1) {
    throw usage_error(fmt::format("--max-tokens {} must be at least 1", *request.max_tokens));
  }
  const int64_t wanted = request.max_tokens.value_or(std::min(kDefaultMaxTokens, room));
  if (wanted < 1 || wanted > room) {
    throw usage_error(fmt::format(
        "a prompt of {} tokens and {} more do not fit into this model's context of {}; shorten the "
        "prompt or lower --max-tokens",
        prompt_tokens, std::max<int64_t>(wanted, 1), context));
  }
  return wanted;
}

}  // namespace

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

Completion complete(const CompletionRequest& request,
                    const std::function<void(std::string_view)>& emit) {
  request.sampling.validate();
  const ModelFiles files = open_model_files(request.model);
  const model::ModelConfig& config = files.config();
  const std::vector<int32_t> prompt = prompt_ids(files, request);

  Completion completion;
  completion.prompt_tokens = static_cast<int64_t>(prompt.size());
  GenerationOptions options;
  options.sampling = request.sampling;
  options.max_tokens = tokens_to_generate(request, completion.prompt_tokens, config.max_positions);
  options.stop_token = request.ignore_eos ? -1 : static_cast<int32_t>(config.eos);

  Session session(files, request.precision, completion.prompt_tokens + options.max_tokens,
                  generation_work(completion.prompt_tokens, options));
  std::unique_ptr<data::StreamDecoder> decoder;
  if (files.tokenizer != nullptr) {
    decoder = files.tokenizer->stream_decoder();
    completion.text.emplace();
  }
  const auto say = [&](const std::string& piece) {
    if (piece.empty()) return;
    *completion.text += piece;
    emit(piece);
  };
  bool first = true;
  completion.ids = generate(session, prompt, options, [&](int32_t id) {
    if (decoder != nullptr) {
      say(decoder->push(id));
    } else {
      emit(fmt::format("{}{}", first ? "" : ",", id));
    }
    first = false;
  });
  if (decoder != nullptr) say(decoder->finish());
  completion.stopped = completion.ids.back() == options.stop_token;
  return completion;
}

}  // namespace athanor::infer
