// Reading the weights of a model directory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/json_reading.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/safetensors.h"

namespace athanor::checkpoint {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// Where each tensor of the directory lies.
struct Weights {
  std::vector<SafetensorsFile> files;
  std::map<std::string, std::pair<size_t, const TensorEntry*>, std::less<>> tensors;
  std::string where;  ///< the file or index that a message about a missing tensor names
};

// "a, b, c and 4 more"
std::string listing(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += (i == 0 ? "" : ", ") + printable(names[i]);
  }
  if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
  return text;
}

std::map<std::string, std::string> parse_index(const fs::path& path) {
  const std::string where = path.string();
  const nlohmann::json root = parse_json(read_file(path), where);
  const nlohmann::json& map = member(root, "weight_map", where);
  if (!map.is_object()) throw data_error(where + ": key \"weight_map\" must be an object");
  std::map<std::string, std::string> places;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      throw data_error(
          fmt::format("{}: weight_map: tensor {} is placed in {}, which is no file name", where,
                      printable(tensor), printable(file.dump())));
    }
    places[tensor] = file.get<std::string>();
  }
  return places;
}

void add_file(const fs::path& path, Weights& weights) {
  weights.files.emplace_back(path);
  for (const TensorEntry& entry : weights.files.back().entries()) {
    const auto [place, added] =
        weights.tensors.try_emplace(entry.name, weights.files.size() - 1, &entry);
    if (!added) {
      throw data_error(fmt::format("{}: tensor {} is also in {}", path.string(),
                                   printable(entry.name),
                                   weights.files[place->second.first].path().filename().string()));
    }
  }
}

Weights open_weights(const fs::path& directory) {
  Weights weights;
  if (fs::exists(directory / kSingle)) {
    weights.where = (directory / kSingle).string();
    add_file(directory / kSingle, weights);
    return weights;
  }
  const fs::path index = directory / kIndex;
  if (!fs::exists(index)) {
    throw data_error(fmt::format("{}: neither {} nor {} in it: not a model directory",
                                 directory.string(), kSingle, kIndex));
  }
  weights.where = index.string();
  const auto places = parse_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : places) names.insert(file);
  weights.files.reserve(names.size());  // entries are pointed to
  for (const std::string& name : names) {
    if (!fs::exists(directory / name)) {
      throw data_error(
          fmt::format("{}: names the file {}, which is missing", index.string(), printable(name)));
    }
    add_file(directory / name, weights);
  }
  for (const auto& [tensor, file] : places) {
    const auto found = weights.tensors.find(tensor);
    if (found == weights.tensors.end() ||
        weights.files[found->second.first].path().filename() != file) {
      throw data_error(fmt::format("{}: places tensor {} in {}, which does not hold it",
                                   index.string(), printable(tensor), printable(file)));
    }
  }
  for (const auto& [tensor, place] : weights.tensors) {
    if (!places.contains(tensor)) {
      throw data_error(fmt::format("{}: tensor {} is not in {}",
                                   weights.files[place.first].path().string(), printable(tensor),
                                   kIndex));
    }
  }
  return weights;
}

struct Wanted {
  model::ParameterSpec spec;
  Tensor into;
};

std::vector<Wanted> wanted_tensors(model::Parameters& parameters) {
  std::vector<Wanted> wanted;
  for (const model::Parameter& parameter : parameters.all()) {
    wanted.push_back({parameter.spec, parameter.value});
  }
  const auto buffers = model::buffer_specs(parameters.config());
  for (size_t layer = 0; layer < buffers.size(); ++layer) {
    wanted.push_back(
        {buffers[layer], parameters.balancing_biases().slice_rows(static_cast<int64_t>(layer), 1)});
  }
  return wanted;
}

void require_same_names(const Weights& weights, const std::vector<Wanted>& wanted) {
  std::vector<std::string> missing;
  std::set<std::string_view> known;
  for (const Wanted& tensor : wanted) {
    known.insert(tensor.spec.name);
    if (!weights.tensors.contains(tensor.spec.name)) missing.push_back(tensor.spec.name);
  }
  if (!missing.empty()) {
    throw data_error(fmt::format("{}: tensors missing: {}", weights.where, listing(missing)));
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, place] : weights.tensors) {
    if (!known.contains(name)) unexpected.push_back(name);
  }
  if (!unexpected.empty()) {
    throw data_error(fmt::format("{}: tensors that config.json does not call for: {}",
                                 weights.where, listing(unexpected)));
  }
}

/// A weight that is NaN or infinite makes a model that answers, and wrongly: a router bias sends tokens anywhere.
bool all_finite(const Tensor& values) {
  bool finite = true;
  for (int64_t r = 0; r < values.rows(); ++r) {
    for (int64_t c = 0; c < values.cols(); ++c) {
      finite &= values.dtype() == DType::kF64 ? std::isfinite(values.row<double>(r)[c])
                                              : std::isfinite(values.row<float>(r)[c]);
    }
  }
  return finite;
}

}  // namespace

void load_weights(const fs::path& directory, model::Parameters& parameters) {
  const Weights weights = open_weights(directory);
  const std::vector<Wanted> wanted = wanted_tensors(parameters);
  require_same_names(weights, wanted);
  for (const Wanted& tensor : wanted) {
    const auto& [file, entry] = weights.tensors.find(tensor.spec.name)->second;
    const std::string where =
        fmt::format("{}: tensor {}", weights.files[file].path().string(), tensor.spec.name);
    if (entry->shape != tensor.spec.shape) {
      throw data_error(
          fmt::format("{} is {}, but config.json makes it {}", where, entry->describe(),
                      TensorEntry{"", entry->dtype, {}, tensor.spec.shape}.describe()));
    }
    if (entry->type != DType::kF32 && entry->type != DType::kBF16) {
      throw data_error(
          fmt::format("{} is stored as {}; F32 or BF16 is wanted", where, entry->dtype));
    }
  }
  for (const Wanted& tensor : wanted) {  // nothing is read before everything fits
    const auto& [file, entry] = weights.tensors.find(tensor.spec.name)->second;
    weights.files[file].read(*entry, 0, tensor.into);
    if (!all_finite(tensor.into)) {
      throw data_error(fmt::format("{}: tensor {} holds a NaN or an infinity",
                                   weights.files[file].path().string(), tensor.spec.name));
    }
  }
  parameters.touch();
}

}  // namespace athanor::checkpoint
