#include "data/bos_setting.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace athanor::data {
namespace {

constexpr const char* kFile = "tokenizer_config.json";
constexpr const char* kKey = "add_bos_token";

}  // namespace

std::vector<std::pair<std::string, std::string>> model_tokenizer_files(const Tokenizer& tokenizer,
                                                                       bool bos) {
  auto files = tokenizer.files();
  auto found = std::find_if(files.begin(), files.end(),
                            [](const auto& file) { return file.first == kFile; });
  if (found == files.end()) found = files.insert(files.end(), {kFile, "{}"});
  auto config = nlohmann::ordered_json::parse(found->second);
  config[kKey] = bos;
  found->second = config.dump(2) + "\n";
  return files;
}

bool reads_bos_setting(const fs::path& folder) {
  const fs::path path = folder / kFile;
  if (!fs::exists(path)) return false;
  const auto config = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!config.is_object()) throw data_error(path.string() + " is not a JSON object");
  const auto flag = config.find(kKey);
  if (flag == config.end() || flag->is_null()) return false;
  if (!flag->is_boolean()) {
    throw data_error(path.string() + ": " + kKey + " is neither true nor false");
  }
  return flag->get<bool>();
}

}  // namespace athanor::data
