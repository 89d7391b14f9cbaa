#include "data/text_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace athanor::data {
namespace {

constexpr const char* kFile = "tokenizer_config.json";
constexpr const char* kBos = "add_bos_token";
constexpr const char* kSequence = "model_max_length";
constexpr int64_t kLongest = int64_t{1} << 40;  // more positions than any model has

}  // namespace

std::vector<std::pair<std::string, std::string>> model_tokenizer_files(
    const Tokenizer& tokenizer, const TextSettings& settings) {
  auto files = tokenizer.files();
  auto found = std::find_if(files.begin(), files.end(),
                            [](const auto& file) { return file.first == kFile; });
  if (found == files.end()) found = files.insert(files.end(), {kFile, "{}"});
  auto config = nlohmann::ordered_json::parse(found->second);
  const TextSettings said = parse_text_settings(found->second, kFile);
  if (config.contains(kBos) && said.bos == settings.bos && said.sequence == settings.sequence) {
    return files;  // a file of others that says the same already stays as it is, byte for byte
  }
  config[kBos] = settings.bos;
  if (settings.sequence) config[kSequence] = *settings.sequence;
  found->second = config.dump(2) + "\n";
  return files;
}

TextSettings parse_text_settings(std::string_view json, const std::string& where) {
  TextSettings settings;
  nlohmann::json config;
  try {
    config = nlohmann::json::parse(json);
  } catch (const nlohmann::json::parse_error& error) {
    throw data_error(fmt::format("{}: not valid JSON at byte {}", where, error.byte));
  } catch (const nlohmann::json::exception&) {
    throw data_error(where + ": not valid JSON: a number is out of range");
  }
  if (!config.is_object()) throw data_error(where + " is not a JSON object");
  if (const auto flag = config.find(kBos); flag != config.end() && !flag->is_null()) {
    if (!flag->is_boolean()) {
      throw data_error(where + ": " + kBos + " is neither true nor false");
    }
    settings.bos = flag->get<bool>();
  }
  if (const auto length = config.find(kSequence);
      length != config.end() && length->is_number_integer()) {
    const auto tokens = length->get<int64_t>();
    if (tokens >= 1 && tokens <= kLongest) settings.sequence = tokens;
  }
  return settings;
}

TextSettings read_text_settings(const fs::path& folder) {
  const fs::path path = folder / kFile;
  return fs::exists(path) ? parse_text_settings(read_file(path), path.string()) : TextSettings{};
}

}  // namespace athanor::data
