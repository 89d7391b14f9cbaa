#include "data/token_lines.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/jsonl.h"
#include "data/line_reader.h"

namespace athanor::data {
namespace {

constexpr size_t kPortionBytes = 4 << 20;  // texts encoded together, so that all threads have work

Error line_error(const fs::path& file, int64_t line, const std::string& what) {
  return data_error(fmt::format("{}:{}: {}", file.string(), line, what));
}

/// The next line that is not blank; false at the end.
bool next_object(LineReader& lines, std::string& line) {
  do {
    line.clear();
    if (!lines.next(line)) return false;
    if (line.ends_with('\n')) line.pop_back();
  } while (is_blank_json_line(line));
  return true;
}

}  // namespace

std::string ids_of_json_line(std::string_view line, std::vector<int32_t>& ids) {
  using nlohmann::json;
  int found_keys = 0;
  const auto count_keys = [&](int depth, json::parse_event_t event, json& value) {
    found_keys += depth == 1 && event == json::parse_event_t::key && value == "ids" ? 1 : 0;
    return true;
  };
  json object;
  try {
    object = json::parse(line, count_keys);
  } catch (const json::parse_error& error) {
    return fmt::format("not valid JSON at byte {}", error.byte);
  } catch (const json::exception&) {
    return "not valid JSON: a number is out of range";
  }
  if (found_keys > 1) return "key \"ids\" occurs twice; which one is meant?";
  if (!object.is_object()) return "not a JSON object with `ids`";
  const auto found = object.find("ids");
  if (found == object.end()) return "the object has no `ids`";
  if (!found->is_array()) return "`ids` is not an array";
  ids.clear();
  for (const auto& value : *found) {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost) {
      // Of what is no number only the type is told: it may be nested deeper than dump() can follow.
      const std::string found_text = value.is_number() ? value.dump() : value.type_name();
      return fmt::format("`ids` holds {}, which is no token id", found_text);
    }
    ids.push_back(static_cast<int32_t>(value.get<uint64_t>()));
  }
  return "";
}

void encode_lines(const Tokenizer& tokenizer, const fs::path& jsonl, bool special,
                  const Threads& threads, const LineSink& sink) {
  LineReader lines(jsonl);
  std::vector<std::string> texts;
  size_t bytes = 0;
  const auto encode = [&] {
    for (std::vector<int32_t>& ids : encode_all(tokenizer, texts, threads)) {
      if (special) tokenizer.add_special(ids);
      sink(fmt::format("{{\"ids\":[{}]}}\n", fmt::join(ids, ",")));
    }
    texts.clear();
    bytes = 0;
  };
  std::string line;
  while (next_object(lines, line)) {
    std::string text;
    const std::string wrong = text_of_json_line(line, text);
    if (!wrong.empty()) {
      encode();
      throw line_error(jsonl, lines.number(), wrong);
    }
    bytes += text.size();
    texts.push_back(std::move(text));
    if (bytes >= kPortionBytes) encode();
  }
  encode();
}

void decode_lines(const Tokenizer& tokenizer, const fs::path& jsonl, bool skip_special,
                  const LineSink& sink) {
  LineReader lines(jsonl);
  std::vector<int32_t> ids;
  std::string line;
  while (next_object(lines, line)) {
    const std::string wrong = ids_of_json_line(line, ids);
    if (!wrong.empty()) throw line_error(jsonl, lines.number(), wrong);
    const nlohmann::json object = {{"text", tokenizer.decode(ids, skip_special)}};
    sink(object.dump() + "\n");
  }
}

}  // namespace athanor::data
