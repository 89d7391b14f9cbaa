// The weights of a model directory.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/json_reading.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/weights.h"

namespace athanor::checkpoint {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

struct Place {
  const SafetensorsFile* file;
  const TensorEntry* entry;
};
using Places = std::map<std::string, Place, std::less<>>;

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

void add_tensors(const SafetensorsFile& file, Places& places) {
  for (const TensorEntry& entry : file.entries()) {
    const auto [place, added] = places.try_emplace(entry.name, Place{&file, &entry});
    if (!added) {
      throw data_error(fmt::format("{}: tensor {} is also in {}", file.path().string(),
                                   printable(entry.name),
                                   place->second.file->path().filename().string()));
    }
  }
}

/// Opens the shards that the index names; each must hold what the index places in it and nothing else.
void open_shards(const fs::path& directory, std::vector<SafetensorsFile>& files, Places& places) {
  const fs::path index = directory / kIndex;
  const auto named = parse_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : named) names.insert(file);
  files.reserve(names.size());  // they are pointed to
  for (const std::string& name : names) {
    if (!fs::exists(directory / name)) {
      throw data_error(
          fmt::format("{}: names the file {}, which is missing", index.string(), printable(name)));
    }
    files.emplace_back(directory / name);
    add_tensors(files.back(), places);
  }
  for (const auto& [tensor, file] : named) {
    const auto found = places.find(tensor);
    if (found == places.end() || found->second.file->path().filename() != file) {
      throw data_error(fmt::format("{}: places tensor {} in {}, which does not hold it",
                                   index.string(), printable(tensor), printable(file)));
    }
  }
  for (const auto& [tensor, place] : places) {
    if (!named.contains(tensor)) {
      throw data_error(fmt::format("{}: tensor {} is not in {}", place.file->path().string(),
                                   printable(tensor), kIndex));
    }
  }
}

void require_fit(const Place& place, const LayoutTensor& wanted) {
  const std::string where = fmt::format("{}: tensor {}", place.file->path().string(), wanted.name);
  const TensorEntry& entry = *place.entry;
  if (entry.shape != wanted.shape) {
    throw data_error(fmt::format("{} is {}, but config.json makes it {}", where, entry.describe(),
                                 TensorEntry{"", entry.dtype, {}, wanted.shape}.describe()));
  }
  if (entry.type != DType::kF32 && entry.type != DType::kBF16) {
    throw data_error(fmt::format("{} is stored as {}; F32 or BF16 is wanted", where, entry.dtype));
  }
}

}  // namespace

DirectoryWeights::DirectoryWeights(const fs::path& directory, const model::ModelConfig& config,
                                   Layout layout) {
  Places places;
  std::string where = (directory / kSingle).string();
  if (fs::exists(directory / kSingle)) {
    files_.emplace_back(directory / kSingle);
    add_tensors(files_.back(), places);
  } else if (fs::exists(directory / kIndex)) {
    where = (directory / kIndex).string();
    open_shards(directory, files_, places);
  } else {
    throw data_error(fmt::format("{}: neither {} nor {} in it: not a model directory",
                                 directory.string(), kSingle, kIndex));
  }

  std::vector<LayoutTensor> wanted = layout_tensors(config, layout);
  std::vector<std::string> missing;
  std::set<std::string_view> known;
  for (const LayoutTensor& tensor : wanted) {
    known.insert(tensor.name);
    if (!places.contains(tensor.name)) missing.push_back(tensor.name);
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, place] : places) {
    if (!known.contains(name)) unexpected.push_back(name);
  }
  require_none_left(where, missing, unexpected);

  std::sort(wanted.begin(), wanted.end(), [](const LayoutTensor& a, const LayoutTensor& b) {
    return std::pair(a.tensor, a.begin) < std::pair(b.tensor, b.begin);
  });
  const std::vector<ModelTensor> tensors = model_tensors(config);
  for (const LayoutTensor& tensor : wanted) {
    const Place& place = places.find(tensor.name)->second;
    require_fit(place, tensor);
    parts_[tensors[tensor.tensor].spec.name].push_back(
        {place.file, place.entry, tensor.begin, tensor.begin + tensor.numel()});
  }
}

const std::vector<DirectoryWeights::Part>& DirectoryWeights::parts(
    const model::ParameterSpec& spec) const {
  const auto found = parts_.find(spec.name);
  require(found != parts_.end(), "a tensor is read that the model does not have");
  return found->second;
}

DType DirectoryWeights::dtype(const model::ParameterSpec& spec) const {
  const std::vector<Part>& stored = parts(spec);
  const bool half = std::all_of(stored.begin(), stored.end(),
                                [](const Part& part) { return part.entry->type == DType::kBF16; });
  return half ? DType::kBF16 : DType::kF32;
}

void DirectoryWeights::read(const model::ParameterSpec& spec, int64_t begin,
                            const Tensor& into) const {
  const int64_t end = begin + into.numel();
  for (const Part& part : parts(spec)) {
    const int64_t from = std::max(begin, part.begin);
    const int64_t to = std::min(end, part.end);
    if (from >= to) continue;
    part.file->read(*part.entry, from - part.begin, into.part(from - begin, to - from));
  }
}

std::string DirectoryWeights::place(const model::ParameterSpec& spec, int64_t element) const {
  for (const Part& part : parts(spec)) {
    if (element >= part.end) continue;
    return fmt::format("{}: tensor {}", part.file->path().string(), part.entry->name);
  }
  throw bug("an element past the end of a tensor has no place");
}

}  // namespace athanor::checkpoint
