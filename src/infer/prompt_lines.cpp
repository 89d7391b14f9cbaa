#include "infer/prompt_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "data/chat_template.h"
#include "data/jsonl.h"
#include "data/line_reader.h"
#include "data/utf8.h"
#include "infer/text_writer.h"

namespace athanor::infer {
namespace {

using Json = nlohmann::ordered_json;

/// Texts side by side. Beyond this a token's products are as large as a prompt's, and reading weights no longer counts.
constexpr int64_t kMostAtOnce = 64;
constexpr int kDeepest = 64;  // of nesting in a line
constexpr const char* kResults[] = {"text", "prompt_tokens", "finish_reason"};  // and "ids"

/// What is asked for in one line.
struct Line {
  Json others;  // keys that go along
  Prompt prompt;
  std::vector<std::string> stop;
};

/// Parses a line; throws data_error, without the place, for what is no object or could be misread.
Json parse_object(std::string_view line) {
  const size_t valid = data::valid_utf8_prefix(line);
  if (valid != line.size()) {
    throw data_error(fmt::format("not UTF-8 at byte {} of the line", valid + 1));
  }
  std::vector<std::vector<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDeepest) throw data_error(fmt::format("nested deeper than {} levels", kDeepest));
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (std::find(keys.back().begin(), keys.back().end(), name) != keys.back().end()) {
        throw data_error(fmt::format("key \"{}\" occurs twice; which one is meant?", name));
      }
      keys.back().push_back(name);
    }
    return true;
  };
  Json object;
  try {
    object = Json::parse(line, watch);
  } catch (const Json::parse_error& error) {
    throw data_error(fmt::format("not valid JSON at byte {}", error.byte));
  } catch (const Json::exception&) {
    throw data_error("not valid JSON: a number is out of range");
  }
  if (!object.is_object()) {
    throw data_error(fmt::format("a JSON object is wanted here, not {}", object.type_name()));
  }
  return object;
}

std::string text_of(const Json& value, const char* key) {
  if (!value.is_string()) {
    throw data_error(fmt::format("\"{}\" is {}; a string is wanted", key, value.type_name()));
  }
  return value.get<std::string>();
}

/// A whole number that is not negative.
uint64_t number_of(const Json& value, const char* key) {
  if (!value.is_number_unsigned()) {
    throw data_error(fmt::format("\"{}\" is no whole number from 0 on", key));
  }
  return value.get<uint64_t>();
}

std::vector<int32_t> ids_of(const Json& value, int64_t vocab) {
  if (!value.is_array() || value.empty()) {
    throw data_error("\"ids\" is not a list of token ids with one in it");
  }
  std::vector<int32_t> ids;
  for (const Json& one : value) {
    const uint64_t id = number_of(one, "ids");
    if (id >= static_cast<uint64_t>(vocab)) {
      throw data_error(fmt::format(
          "\"ids\" holds {}, which is outside the model's vocabulary of {} (ids 0 to {})", id,
          vocab, vocab - 1));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<data::ChatMessage> messages_of(const Json& value) {
  if (!value.is_array() || value.empty()) {
    throw data_error("\"messages\" is not a list with a message in it");
  }
  std::vector<data::ChatMessage> messages;
  for (const Json& one : value) {
    if (!one.is_object() || one.size() != 2 || !one.contains("role") || !one.contains("content")) {
      throw data_error("a message has a \"role\" and a \"content\" and nothing else");
    }
    messages.push_back({text_of(one["role"], "role"), text_of(one["content"], "content")});
    const std::string& role = messages.back().role;
    if (role != "user" && role != "assistant" && (role != "system" || messages.size() > 1)) {
      throw data_error(fmt::format(
          "a message has the role \"{}\"; known are user, assistant, and system for the first",
          role));
    }
  }
  return messages;
}

/// Makes prompts of lines.
class Reader {
 public:
  Reader(const ModelFiles& files, const PromptLinesRequest& request)
      : files_(files), request_(request) {
    if (request.chat) chat_.emplace(files.opened.directory, files.require_tokenizer());
  }

  /// `number` of the object, from 0. Throws without the place.
  Line read(std::string_view text, uint64_t number) const {
    Line line{.others = parse_object(text), .prompt = {}, .stop = request_.writing.stop};
    for (const char* key : kResults) {
      if (line.others.contains(key)) {
        throw data_error(fmt::format("key \"{}\" is one that the result has; rename it", key));
      }
    }
    std::optional<int64_t> max_tokens;
    if (const auto most = take(line.others, "max_tokens")) {
      max_tokens = static_cast<int64_t>(
          std::min<uint64_t>(number_of(*most, "max_tokens"), std::numeric_limits<int64_t>::max()));
    }
    WritingOptions writing = request_.writing;
    writing.sampling.seed += number;
    if (const auto seed = take(line.others, "seed"))
      writing.sampling.seed = number_of(*seed, "seed");
    line.prompt = make_prompt(files_, prompt_ids(line.others), writing, max_tokens);
    if (chat_) stop_at_turn_end(files_, line.prompt.options, line.stop);
    return line;
  }

 private:
  static std::optional<Json> take(Json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) return std::nullopt;
    Json value = std::move(*found);
    object.erase(found);
    return value;
  }

  std::vector<int32_t> prompt_ids(Json& object) const {
    const auto prompt = take(object, "prompt");
    const auto ids = take(object, "ids");
    const auto messages = chat_ ? take(object, "messages") : std::nullopt;
    if ((prompt ? 1 : 0) + (ids ? 1 : 0) + (messages ? 1 : 0) != 1 || (chat_ && ids)) {
      throw data_error(chat_ ? "one of \"prompt\" and \"messages\" is wanted"
                             : "one of \"prompt\" and \"ids\" is wanted");
    }
    if (ids) return ids_of(*ids, files_.config().vocab);
    if (messages) return rendered(messages_of(*messages));
    const std::string text = text_of(*prompt, "prompt");
    if (!chat_) return text_ids(files_, text);
    std::vector<data::ChatMessage> turns;
    if (request_.system) turns.push_back({"system", *request_.system});
    turns.push_back({"user", text});
    return rendered(turns);
  }
  std::vector<int32_t> rendered(const std::vector<data::ChatMessage>& messages) const {
    return files_.require_tokenizer().encode(chat_->render(messages));
  }

  const ModelFiles& files_;
  const PromptLinesRequest& request_;
  std::optional<data::ChatTemplate> chat_;
};

std::vector<Line> read_lines(const ModelFiles& files, const PromptLinesRequest& request) {
  const Reader reader(files, request);
  data::LineReader source(request.jsonl);
  std::vector<Line> lines;
  for (std::string text; source.next(text); text.clear()) {
    if (text.ends_with('\n')) text.pop_back();
    if (data::is_blank_json_line(text)) continue;
    try {
      lines.push_back(reader.read(text, lines.size()));
    } catch (const Error& error) {
      throw data_error(
          fmt::format("{}:{}: {}", request.jsonl.string(), source.number(), error.what()));
    }
  }
  return lines;
}

/// Gathers the texts and hands their lines on in order.
class Results : public GenerationSink {
 public:
  Results(const ModelFiles& files, std::span<Line> lines,
          const std::function<void(std::string_view)>& emit)
      : lines_(lines),
        emit_(emit),
        done_(lines.size()),
        progress_("generate", "texts", static_cast<int64_t>(lines.size())) {
    for (const Line& line : lines) {
      writers_.push_back(
          std::make_unique<TextWriter>(files.tokenizer.get(), line.prompt.options, line.stop));
    }
  }

  bool token(size_t text, int32_t token) override {
    writers_[text]->push(token);
    return !writers_[text]->stopped();
  }
  void end(size_t text, Ending ending) override {
    TextWriter& writer = *writers_[text];
    writer.finish();
    Json& object = lines_[text].others;
    object["text"] = nullptr;
    if (writer.text()) object["text"] = *writer.text();
    object["ids"] = writer.ids();
    object["prompt_tokens"] = lines_[text].prompt.ids.size();
    object["finish_reason"] = finish_reason(ending, writer);
    done_[text] = object.dump() + "\n";
    writers_[text].reset();
    ++ended_;
    while (next_ < done_.size() && !done_[next_].empty()) emit_(std::exchange(done_[next_++], ""));
    progress_.update(ended_);
  }

 private:
  std::span<Line> lines_;
  const std::function<void(std::string_view)>& emit_;
  std::vector<std::unique_ptr<TextWriter>> writers_;
  std::vector<std::string> done_;  // lines that wait for one before them
  size_t next_ = 0;                // line to hand on
  int64_t ended_ = 0;
  log::Progress progress_;
};

}  // namespace

void complete_lines(const PromptLinesRequest& request,
                    const std::function<void(std::string_view line)>& emit) {
  const ModelFiles files = open_model_files(request.model);
  check_writing(files, request.writing);
  std::vector<Line> lines = read_lines(files, request);
  if (lines.empty()) throw data_error(request.jsonl.string() + ": no prompt in it");
  std::vector<Prompt> prompts;
  for (const Line& line : lines) prompts.push_back(line.prompt);

  const int64_t longest = longest_text(prompts);
  const ops::Precision precision = request.writing.precision;
  const int64_t at_once = prompts_at_once(files, precision, longest, prompts, kMostAtOnce);
  Session session(files, precision, longest, generation_work(prompts, at_once));
  Results results(files, lines, emit);
  generate(session, prompts, at_once, results);
}

}  // namespace athanor::infer
