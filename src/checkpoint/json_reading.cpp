#include "checkpoint/json_reading.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

namespace athanor::checkpoint {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;  // nothing that this program reads nests deeper than a handful

// Follows the parser through nested objects and refuses what it would take silently.
class Strictness {
 public:
  explicit Strictness(const std::string& where) : where_(where) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        if (depth >= kDeepest) too_deep();
        keys_.emplace_back();
        break;
      case json::parse_event_t::array_start:
        if (depth >= kDeepest) too_deep();
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key: {
        const auto& name = value.get_ref<const std::string&>();
        if (!keys_.back().insert(name).second) {
          throw data_error(fmt::format("{}: key \"{}\" occurs twice", where_, printable(name)));
        }
        break;
      }
      default:
        break;
    }
    return true;
  }

 private:
  void too_deep() const {
    throw data_error(fmt::format("{}: JSON nested deeper than {} levels", where_, kDeepest));
  }

  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
};

std::string type_error(const std::string& where, const char* key, const char* wanted,
                       const json& value) {
  return fmt::format("{}: key \"{}\" must be {}, not {}", where, key, wanted, value.type_name());
}

bool fits_int64(const json& value) {
  if (!value.is_number_integer()) return false;
  return !value.is_number_unsigned() ||
         value.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
}

}  // namespace

json parse_json(std::string_view text, const std::string& where) {
  Strictness strictness(where);
  try {
    // The parser copies its callback; the reference keeps one state.
    return json::parse(text.begin(), text.end(),
                       [&](int depth, json::parse_event_t event, json& value) {
                         return strictness(depth, event, value);
                       });
  } catch (const json::parse_error& error) {
    throw data_error(fmt::format("{}: not valid JSON at byte {}", where, error.byte));
  } catch (const json::exception&) {  // a number that no type holds
    throw data_error(fmt::format("{}: not valid JSON: a number is out of range", where));
  }
}

const json& member(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) {
    throw data_error(fmt::format("{}: a JSON object is wanted, not {}", where, object.type_name()));
  }
  const auto found = object.find(key);
  if (found == object.end()) throw data_error(fmt::format("{}: key \"{}\" is missing", where, key));
  return *found;
}

int64_t integer_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!fits_int64(value)) throw data_error(type_error(where, key, "an integer", value));
  return value.get<int64_t>();
}

std::string string_member(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_string()) throw data_error(type_error(where, key, "a string", value));
  return value.get<std::string>();
}

std::vector<int64_t> integers_member(const json& object, const char* key,
                                     const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_array()) throw data_error(type_error(where, key, "a list of integers", value));
  std::vector<int64_t> integers;
  integers.reserve(value.size());
  for (const json& element : value) {
    if (!fits_int64(element)) {
      throw data_error(type_error(where, key, "a list of integers", element));
    }
    integers.push_back(element.get<int64_t>());
  }
  return integers;
}

std::string printable(std::string_view name) {
  constexpr size_t kLongest = 200;
  std::string text;
  for (const char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  if (name.size() > kLongest) text += "…";
  return text;
}

}  // namespace athanor::checkpoint
