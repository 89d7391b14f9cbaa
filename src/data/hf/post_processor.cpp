#include "data/hf/post_processor.h"

#include <fmt/format.h>

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

SpecialFrame read_template(const Field& field, const Vocabulary& vocabulary) {
  field.only({"type", "single", "pair", "special_tokens"});
  SpecialFrame frame;
  bool text_seen = false;
  const Field single = field.at("single");
  for (const Field& item : single.items()) {
    item.only({"SpecialToken", "Sequence"});
    if (const auto special = item.find("SpecialToken")) {
      for (const int32_t id : ids_of_special(*special, field, vocabulary)) {
        (text_seen ? frame.back : frame.front).push_back(id);
      }
      continue;
    }
    const std::string sequence = item.at("Sequence").at("id").text();
    if (sequence != "A" || text_seen) {
      throw item.refusal("is not the one text of a template for single texts");
    }
    text_seen = true;
  }
  if (!text_seen) throw single.refusal("has no place for the text");
  return frame;
}

/// ["</s>", 2]: a token and its id.
int32_t read_pair(const Field& field, const Vocabulary& vocabulary) {
  const std::vector<Field> parts = field.items();
  if (parts.size() != 2) throw field.refusal("is not a token and its id");
  return read_id(parts[1], vocabulary);
}

}  // namespace

SpecialFrame read_post_processor(const Field& field, const Vocabulary& vocabulary) {
  const std::string type = field.type();
  if (type == "ByteLevel") {  // says something about offsets in the text only
    field.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "TemplateProcessing") return read_template(field, vocabulary);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    field.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return {{read_pair(field.at("cls"), vocabulary)}, {read_pair(field.at("sep"), vocabulary)}};
  }
  if (type == "Sequence") {
    field.only({"type", "processors"});
    SpecialFrame frame;
    for (const Field& step : field.at("processors").items()) {
      const SpecialFrame outer = read_post_processor(step, vocabulary);
      frame.front.insert(frame.front.begin(), outer.front.begin(), outer.front.end());
      frame.back.insert(frame.back.end(), outer.back.begin(), outer.back.end());
    }
    return frame;
  }
  throw field.refusal(
      fmt::format("is a post-processor of the type {}, which is not known", shown(type)));
}

}  // namespace athanor::data::hf
