// Configs as TOML text: strict reading and stable writing.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/files.h"
#include "base/spelling.h"
#include "train/config.h"
#include "train/config_checks.h"
#include "train/config_fields.h"

namespace athanor::train {
namespace {

/// Where messages say that a value came from.
struct Origin {
  std::string file;
  std::set<std::string> overridden;  ///< keys given by --set

  std::string of(const std::string& key, const toml::node* node) const {
    if (overridden.contains(key)) return "--set " + key;
    const auto line = node == nullptr ? 0 : node->source().begin.line;
    return line > 0 ? fmt::format("{}:{}", file, line) : file;
  }
};

using Leaves = std::map<std::string, const toml::node*>;

/// "a.b" → value, "phases.0.tokens" → value; a list of plain values is one leaf.
void flatten(const toml::node& node, const std::string& key, Leaves& leaves) {
  if (const toml::table* table = node.as_table()) {
    for (const auto& [name, child] : *table) {
      flatten(child, key.empty() ? std::string(name.str()) : key + "." + std::string(name.str()),
              leaves);
    }
    return;
  }
  const toml::array* array = node.as_array();
  if (array != nullptr && !array->empty() && array->is_homogeneous<toml::table>()) {
    for (size_t i = 0; i < array->size(); ++i) {
      flatten((*array)[i], key + "." + std::to_string(i), leaves);
    }
    return;
  }
  leaves[key] = &node;
}

/// The number of tables in the list at `key`; 0 when there is none.
size_t list_size(const toml::node& root, std::string_view key) {
  const toml::array* array = toml::node_view(root).at_path(key).as_array();
  return array != nullptr && (array->empty() || array->is_homogeneous<toml::table>())
             ? array->size()
             : 0;
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
         text.size() < 10;
}

/// Puts a table with the one key `v` of `value` at `path`.
void set_at(toml::table& root, const std::vector<std::string>& path, const toml::table& value,
            const std::string& text) {
  toml::node* at = &root;
  for (size_t i = 0; i < path.size(); ++i) {
    const std::string& part = path[i];
    const bool last = i + 1 == path.size();
    if (toml::array* array = at->as_array()) {
      if (!is_number(part) || std::stoull(part) >= array->size()) {
        throw usage_error(
            fmt::format("--set {}: '{}' is no element of a list of {}", text, part, array->size()));
      }
      at = array->get(std::stoull(part));
      if (!last) continue;
      throw usage_error("--set " + text + ": name a key of that element");
    }
    toml::table* table = at->as_table();
    if (table == nullptr || part.empty()) {
      throw usage_error("--set " + text +
                        ": no key can be below that one; write section.key=value");
    }
    if (last) {
      table->insert_or_assign(part, *value.get("v"));
    } else {
      if (!table->contains(part)) table->insert(part, toml::table{});
      at = table->get(part);
    }
  }
}

void apply_override(toml::table& root, const std::string& text, Origin& origin) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw usage_error("--set " + text + ": write it as section.key=value");
  }
  const std::string key = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  toml::table parsed;
  try {
    parsed = toml::parse("v = " + value);
  } catch (const toml::parse_error&) {
    parsed = toml::table{{"v", value}};  // a bare word
  }
  if (parsed.size() != 1) parsed = toml::table{{"v", value}};
  set_at(root, split(key), parsed, text);
  origin.overridden.insert(key);
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a section";
    default:
      return "a date or time";
  }
}

std::string range_text(const Field& field) {
  const auto number = [](double v) {
    return std::abs(v) < 1e16 && v == std::floor(v) ? fmt::format("{}", static_cast<int64_t>(v))
                                                    : fmt::format("{:g}", v);
  };
  const bool positive = field.minimum > 0 && field.minimum < 1e-300;
  std::string text = positive ? "more than 0" : "at least " + number(field.minimum);
  return text + " and at most " + number(field.maximum);
}

/// Writes one TOML value into the place of its field.
struct Assign {
  const Field& field;
  const toml::node& node;
  std::string where;  ///< "file:12: model.layers"

  Error wrong(std::string_view wanted) const {
    return usage_error(fmt::format("{}: {} is needed, this is {}", where, wanted, kind_of(node)));
  }
  void check_range(double value) const {
    if (!(value >= field.minimum && value <= field.maximum)) {
      throw usage_error(
          fmt::format("{}: {} is out of range: it must be {}", where, value, range_text(field)));
    }
  }
  void operator()(int64_t* into) const {
    if (field.automatic && node.value_exact<std::string>() == "auto") {
      *into = kAuto;
      return;
    }
    const auto value = node.value_exact<int64_t>();
    if (!value) throw wrong(field.automatic ? "a whole number or \"auto\"" : "a whole number");
    check_range(static_cast<double>(*value));
    *into = *value;
  }
  void operator()(double* into) const {
    if (const auto whole = node.value_exact<int64_t>()) {
      *into = static_cast<double>(*whole);
    } else if (const auto real = node.value_exact<double>()) {
      *into = *real;
    } else {
      throw wrong("a number");
    }
    check_range(*into);
  }
  void operator()(bool* into) const {
    const auto value = node.value_exact<bool>();
    if (!value) throw wrong("true or false");
    *into = *value;
  }
  void operator()(std::string* into) const {
    const auto value = node.value_exact<std::string>();
    if (!value) throw wrong("a string");
    *into = *value;
  }
  void operator()(std::vector<std::string>* into) const {
    const auto word = [&](const toml::node& item) {
      if (const auto text = item.value_exact<std::string>()) return *text;
      if (const auto number = item.value_exact<int64_t>()) return std::to_string(*number);
      throw wrong("a word or a list of words or numbers");
    };
    into->clear();
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) into->push_back(word(item));
    } else if (node.is_string()) {
      into->push_back(word(node));
    } else {
      throw wrong("a word or a list of words or numbers");
    }
  }
  void operator()(const Choice& into) const {
    auto value = node.value_exact<std::string>();
    if (value && !value->empty() && *value == field.former.first) value = field.former.second;
    std::string names;
    for (size_t i = 0; i < into.names.size(); ++i) {
      if (value && *value == into.names[i]) {
        *into.value = static_cast<unsigned char>(i);
        return;
      }
      names += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", into.names[i]);
    }
    if (!value) throw wrong("one of " + names);
    throw usage_error(fmt::format("{}: \"{}\" is none of {}", where, *value, names));
  }
};

/// Every key that a config may have, for the nearest one to a misspelt one: list elements as in
/// `key`.
std::vector<std::string> known_keys(const std::string& key) {
  Config one;
  one.phases.resize(1);
  one.phases[0].sources.resize(1);
  one.batch.ramp.resize(1);
  std::vector<std::string> keys;
  for (const Field& field : fields_of(one)) {
    std::vector<std::string> known = split(field.key);
    const std::vector<std::string> given = split(key);
    for (size_t i = 0; i < known.size(); ++i) {
      if (known[i] == "0" && i < given.size() && is_number(given[i])) known[i] = given[i];
    }
    std::string text;
    for (const std::string& part : known) text += (text.empty() ? "" : ".") + part;
    keys.push_back(text);
  }
  for (const char* list : {"phases", "batch.ramp"}) keys.emplace_back(list);
  return keys;
}

/// "; did you mean 'x'?": the key that begins like `key`, else the one with the fewest edits.
std::string nearest(const std::string& key) {
  const std::vector<std::string> keys = known_keys(key);
  const auto longer = std::find_if(keys.begin(), keys.end(),
                                   [&](const std::string& k) { return k.starts_with(key); });
  return longer != keys.end() ? fmt::format("; did you mean '{}'?", *longer)
                              : suggestion(key, keys);
}

Config from_table(const toml::table& root, const Origin& origin) {
  Leaves leaves;
  flatten(root, "", leaves);
  Config config;
  config.phases.resize(list_size(root, "phases"));
  for (size_t i = 0; i < config.phases.size(); ++i) {
    config.phases[i].sources.resize(list_size(root, fmt::format("phases[{}].sources", i)));
  }
  config.batch.ramp.resize(list_size(root, "batch.ramp"));
  // An empty list of tables is a leaf that says nothing.
  std::erase_if(leaves, [](const auto& leaf) {
    const auto& [key, node] = leaf;
    const bool list = key == "phases" || key == "batch.ramp" || key.ends_with(".sources");
    return list && node->is_array() && node->as_array()->empty();
  });

  std::string missing;
  for (const Field& field : fields_of(config)) {
    const auto leaf = leaves.find(field.key);
    if (leaf == leaves.end()) {
      if (field.required && missing.empty()) missing = field.key;
      continue;
    }
    const toml::node& node = *leaf->second;
    const std::string where = origin.overridden.contains(field.key)
                                  ? origin.of(field.key, &node)
                                  : origin.of(field.key, &node) + ": " + field.key;
    std::visit(Assign{field, node, where}, field.value);
    leaves.erase(leaf);
  }
  // A misspelt key explains a missing one, so it is named first.
  if (!leaves.empty()) {
    const auto& [key, node] = *leaves.begin();
    if (key == "phases" || key.starts_with("phases.")) {
      if (const toml::node* phases = root.get("phases"); !phases->is_array()) {
        throw usage_error(origin.of(key, node) +
                          ": phases is a list of tables: begin each with [[phases]]");
      }
    }
    throw usage_error(
        fmt::format("{}: unknown key '{}'{}", origin.of(key, node), key, nearest(key)));
  }
  if (!missing.empty()) throw usage_error(origin.file + ": " + missing + " is missing");
  check(config, origin.file);
  return config;
}

}  // namespace

Config parse_config(std::string_view toml, const std::string& origin,
                    const std::vector<std::string>& overrides) {
  toml::table root;
  try {
    root = toml::parse(toml);
  } catch (const toml::parse_error& error) {
    throw usage_error(
        fmt::format("{}:{}: {}", origin, error.source().begin.line, error.description()));
  }
  Origin place{origin, {}};
  for (const std::string& text : overrides) apply_override(root, text, place);
  return from_table(root, place);
}

Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return parse_config(read_file(path, ExitCode::kUsage), path.string(), overrides);
}

std::string to_toml(const Config& config) {
  Config copy = config;
  std::string text;
  std::string section;
  for (const Field& field : fields_of(copy)) {
    const size_t dot = field.key.rfind('.');
    const std::string of = dot == std::string::npos ? "" : field.key.substr(0, dot);
    if (of != section) {
      section = of;
      // "phases.0.sources.1" is an element of the list phases.sources of the phase before it.
      std::string name;
      bool list = false;
      for (const std::string& part : split(of)) {
        list = is_number(part);
        if (!list) name += (name.empty() ? "" : ".") + part;
      }
      text += list ? "\n[[" + name + "]]\n" : "\n[" + name + "]\n";
    }
    text +=
        field.key.substr(dot == std::string::npos ? 0 : dot + 1) + " = " + value_text(field) + "\n";
  }
  return text;
}

}  // namespace athanor::train
