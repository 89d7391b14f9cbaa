#include "data/hf/post_processor.h"

#include <fmt/format.h>

#include <utility>

namespace athanor::data::hf {
namespace {

int32_t read_id(const Field& field, const Vocabulary& vocabulary) {
  const int64_t id = field.integer();
  if (id < 0 || static_cast<size_t>(id) >= vocabulary.tokens.size()) {
    throw field.refusal(fmt::format("is {}, which is no token's id", id));
  }
  return static_cast<int32_t>(id);
}

/// The ids that a template's special token stands for.
std::vector<int32_t> ids_of_special(const Field& item, const Field& processor,
                                    const Vocabulary& vocabulary) {
  const std::string name = item.at("id").text();
  const Field tokens = processor.at("special_tokens");
  const auto token = tokens.find(name.c_str());
  if (!token)
    throw item.refusal(fmt::format("names {}, which is none of special_tokens", shown(name)));
  token->only({"id", "ids", "tokens"});
  std::vector<int32_t> ids;
  for (const Field& id : token->at("ids").items()) ids.push_back(read_id(id, vocabulary));
  return ids;
}

/// One of the pieces that Hugging Face's library keeps a text in while its processors work on it: a template leaves a piece
/// for each of its items, and the next processor deals with each of these by itself.
struct Part {
  std::vector<int32_t> front, back;
  bool text = false;  ///< the text lies between the two
};

std::vector<Part> apply_template(const Field& field, const Vocabulary& vocabulary,
                                 const std::vector<Part>& parts) {
  field.only({"type", "single", "pair", "special_tokens"});
  if (parts.size() > 2) {
    throw field.refusal(
        fmt::format("is a template behind a post-processor that leaves {} pieces, which Hugging "
                    "Face's library cannot follow",
                    parts.size()));
  }
  // It takes two pieces for a pair of texts.
  const bool pair = parts.size() == 2;
  const Field items = field.at(pair ? "pair" : "single");
  std::vector<Part> made;
  bool text_seen = false;
  for (const Field& item : items.items()) {
    item.only({"SpecialToken", "Sequence"});
    if (const auto special = item.find("SpecialToken")) {
      made.push_back({ids_of_special(*special, field, vocabulary), {}, false});
      continue;
    }
    const std::string sequence = item.at("Sequence").at("id").text();
    const size_t which = sequence == "A" ? 0 : 1;
    if (sequence != "A" && sequence != "B") throw item.refusal("is neither text of a template");
    if (which >= parts.size() || (parts[which].text && text_seen)) {
      throw item.refusal("is not the one text of a template for single texts");
    }
    text_seen |= parts[which].text;
    made.push_back(parts[which]);
  }
  if (!text_seen) throw items.refusal("has no place for the text");
  return made;
}

/// ["</s>", 2]: a token and its id.
int32_t read_pair(const Field& field, const Vocabulary& vocabulary) {
  const std::vector<Field> parts = field.items();
  if (parts.size() != 2) throw field.refusal("is not a token and its id");
  return read_id(parts[1], vocabulary);
}

std::vector<Part> apply(const Field& field, const Vocabulary& vocabulary, std::vector<Part> parts) {
  const std::string type = field.type();
  if (type == "ByteLevel") {  // says something about offsets in the text only
    field.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return parts;
  }
  if (type == "TemplateProcessing") return apply_template(field, vocabulary, parts);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    field.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    const int32_t first = read_pair(field.at("cls"), vocabulary);
    const int32_t separator = read_pair(field.at("sep"), vocabulary);
    for (Part& part : parts) {
      if (&part == &parts.front()) {
        part.front.insert(part.front.begin(), first);
      } else if (type == "RobertaProcessing") {
        part.front.insert(part.front.begin(), separator);
      }
      part.back.push_back(separator);
    }
    return parts;
  }
  if (type == "Sequence") {
    field.only({"type", "processors"});
    for (const Field& step : field.at("processors").items()) {
      parts = apply(step, vocabulary, std::move(parts));
    }
    return parts;
  }
  throw field.refusal(
      fmt::format("is a post-processor of the type {}, which is not known", shown(type)));
}

}  // namespace

SpecialFrame read_post_processor(const Field& field, const Vocabulary& vocabulary) {
  SpecialFrame frame;
  bool text_seen = false;
  for (const Part& part : apply(field, vocabulary, {{{}, {}, true}})) {
    std::vector<int32_t>& before = text_seen ? frame.back : frame.front;
    before.insert(before.end(), part.front.begin(), part.front.end());
    text_seen |= part.text;
    std::vector<int32_t>& behind = text_seen ? frame.back : frame.front;
    behind.insert(behind.end(), part.back.begin(), part.back.end());
  }
  return frame;
}

}  // namespace athanor::data::hf
