#include "infer/completion.h"

#include <fmt/format.h>

#include "data/chat_template.h"
#include "data/utf8.h"
#include "infer/text_writer.h"

namespace athanor::infer {
namespace {

/// The prompt's text, rendered under the model's chat template where that is asked for.
std::vector<int32_t> ids_of(const ModelFiles& files, const CompletionRequest& request,
                            const std::string& text) {
  if (!request.chat) return text_ids(files, text);
  const data::Tokenizer& tokenizer = files.require_tokenizer();
  const data::ChatTemplate chat(files.opened.directory, tokenizer);
  std::vector<data::ChatMessage> messages;
  if (request.system) messages.push_back({"system", *request.system});
  messages.push_back({"user", text});
  return tokenizer.encode(chat.render(messages));
}

void require_utf8(const std::string& text, const char* option) {
  const size_t valid = data::valid_utf8_prefix(text);
  if (valid != text.size()) {
    throw usage_error(fmt::format("{}: the text is not UTF-8 at byte {}", option, valid));
  }
}

std::vector<int32_t> prompt_ids(const ModelFiles& files, const CompletionRequest& request) {
  const int given =
      (request.prompt ? 1 : 0) + (request.prompt_file ? 1 : 0) + (request.ids ? 1 : 0);
  if (given != 1) {
    throw usage_error(
        "give one prompt: --prompt TEXT, --prompt-file PATH or --ids 1,2,3 (many: --jsonl FILE)");
  }
  if (request.chat && request.ids) {
    throw usage_error("--chat takes a text, which --ids is not");
  }
  if (request.system && !request.chat) {
    throw usage_error("--system is a turn of a conversation: give --chat too");
  }
  if (request.ids) return parse_ids(*request.ids, files.config().vocab);
  files.require_tokenizer();
  if (request.system) require_utf8(*request.system, "--system");
  if (request.prompt) {
    require_utf8(*request.prompt, "--prompt");
    try {
      return ids_of(files, request, *request.prompt);
    } catch (const Error& error) {
      if (request.chat) throw;                                      // the template's
      throw usage_error(std::string("--prompt: ") + error.what());  // the command line's fault
    }
  }
  const std::string text = read_prompt_file(*request.prompt_file);
  try {
    return ids_of(files, request, text);
  } catch (const Error& error) {
    const std::string name =
        *request.prompt_file == "-" ? "standard input" : request.prompt_file->string();
    throw Error(error.code(), fmt::format("{}: {}", name, error.what()));
  }
}

/// Shows one text as it grows.
class Shown : public GenerationSink {
 public:
  Shown(TextWriter& writer, const std::function<void(std::string_view)>& emit)
      : writer_(writer), emit_(emit) {}
  bool token(size_t, int32_t token) override {
    show(writer_.push(token));
    return !writer_.stopped();
  }
  void end(size_t, Ending ending) override {
    show(writer_.finish());
    reason = finish_reason(ending, writer_);
  }
  const char* reason = "";

 private:
  void show(const std::string& piece) {
    if (!piece.empty()) emit_(piece);
  }
  TextWriter& writer_;
  const std::function<void(std::string_view)>& emit_;
};

}  // namespace

Completion complete(const CompletionRequest& request,
                    const std::function<void(std::string_view)>& emit) {
  const ModelFiles files = open_model_files(request.model);
  check_writing(files, request.writing);
  std::vector<int32_t> ids = prompt_ids(files, request);
  const auto prompt_tokens = static_cast<int64_t>(ids.size());
  Prompt prompt = make_prompt(files, std::move(ids), request.writing, std::nullopt);
  std::vector<std::string> stop = request.writing.stop;
  if (request.chat) stop_at_turn_end(files, prompt.options, stop);

  const std::span<const Prompt> prompts(&prompt, 1);
  Session session(files, request.writing.precision, longest_text(prompts),
                  generation_work(prompts, 1));
  TextWriter writer(files.tokenizer.get(), prompt.options, stop);
  Shown shown(writer, emit);
  generate(session, prompts, 1, shown);
  return {writer.ids(), writer.text(), prompt_tokens, shown.reason};
}

}  // namespace athanor::infer
