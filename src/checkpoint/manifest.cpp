#include "checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "base/files.h"
#include "base/tensor.h"
#include "checkpoint/json_reading.h"

namespace athanor::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "athanor-checkpoint";
constexpr int64_t kVersion = 1;
constexpr size_t kChecksumDigits = 32;
// How a manifest ends: this, 32 digits, then kTail. The digits are the checksum of every byte
// before them.
constexpr std::string_view kChecksumKey = ",\n  \"manifest_checksum\": \"";
constexpr std::string_view kTail = "\"\n}\n";

bool is_checksum(std::string_view text) {
  return text.size() == kChecksumDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string checksum_member(const json& object, const std::string& where) {
  std::string text = string_member(object, "checksum", where);
  if (!is_checksum(text)) {
    throw data_error(where + ": key \"checksum\" must be 32 hexadecimal digits");
  }
  return text;
}

// A name that stays in the checkpoint's own folder.
std::string file_name(const json& object, const char* key, const std::string& where) {
  std::string name = string_member(object, key, where);
  if (!is_plain_file_name(name)) {
    throw data_error(
        fmt::format("{}: key \"{}\": \"{}\" is no plain file name", where, key, printable(name)));
  }
  return name;
}

DType dtype_member(const json& object, const std::string& where) {
  const std::string text = string_member(object, "dtype", where);
  const std::optional<DType> dtype = dtype_named(text);
  if (!dtype) throw data_error(fmt::format("{}: unknown dtype \"{}\"", where, printable(text)));
  return *dtype;
}

ordered_json json_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json::parse(text);
}

std::string text_or_empty(const json& value) { return value.is_null() ? "" : value.dump(); }

StoredFile parse_file(const json& object, const std::string& manifest) {
  StoredFile file;
  file.name = file_name(object, "name", manifest + ": files");
  const std::string where = fmt::format("{}: file {}", manifest, printable(file.name));
  const int64_t bytes = integer_member(object, "bytes", where);
  if (bytes < 0) throw data_error(where + ": negative size");
  file.bytes = static_cast<uint64_t>(bytes);
  const std::string kind = string_member(object, "kind", where);
  if (kind != "rank" && kind != "side") {
    throw data_error(fmt::format("{}: unknown kind \"{}\"", where, printable(kind)));
  }
  file.rank_file = kind == "rank";
  file.checksum = checksum_member(object, where);
  return file;
}

int64_t checked_numel(const std::vector<int64_t>& shape, const std::string& where) {
  int64_t n = 1;
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(n, size, &n)) {
      throw data_error(where + ": a shape that no tensor has");
    }
  }
  return n;
}

StoredTensor parse_tensor(const json& object, const Manifest& manifest, const std::string& file) {
  StoredTensor tensor;
  tensor.name = string_member(object, "name", file + ": tensors");
  const std::string where = fmt::format("{}: tensor {}", file, printable(tensor.name));
  tensor.dtype = dtype_member(object, where);
  tensor.shape = integers_member(object, "shape", where);
  const int64_t numel = checked_numel(tensor.shape, where);
  const json& slices = member(object, "slices", where);
  if (!slices.is_array()) throw data_error(where + ": key \"slices\" must be a list");
  std::set<std::string> files;
  int64_t end = 0;
  for (const json& element : slices) {
    StoredSlice slice;
    slice.file = file_name(element, "file", where);
    slice.offset = integer_member(element, "offset", where);
    slice.length = integer_member(element, "length", where);
    slice.checksum = checksum_member(element, where);
    const StoredFile* stored = manifest.find_file(slice.file);
    if (stored == nullptr || !stored->rank_file) {
      throw data_error(fmt::format("{}: a slice lies in {}, which is no listed rank file", where,
                                   printable(slice.file)));
    }
    if (!files.insert(slice.file).second) {
      throw data_error(fmt::format("{}: two slices in {}", where, printable(slice.file)));
    }
    if (slice.offset != end || slice.length < 1 || slice.length > numel - end) {
      throw data_error(
          fmt::format("{}: its slices do not cover its {} elements exactly once", where, numel));
    }
    end += slice.length;
    tensor.slices.push_back(std::move(slice));
  }
  if (end != numel) {
    throw data_error(
        fmt::format("{}: its slices do not cover its {} elements exactly once", where, numel));
  }
  return tensor;
}

// The text before the checksum's digits; throws unless the digits are those of its bytes.
void verify_own_bytes(std::string_view text, const std::string& where) {
  const size_t ending = kChecksumDigits + kTail.size();
  if (text.size() < ending + kChecksumKey.size()) {
    throw data_error(where + ": the manifest is cut short");
  }
  const std::string_view body = text.substr(0, text.size() - ending);
  const std::string_view digits = text.substr(body.size(), kChecksumDigits);
  if (!body.ends_with(kChecksumKey) || text.substr(body.size() + kChecksumDigits) != kTail) {
    throw data_error(where +
                     ": the manifest does not end with its checksum; it is cut short or edited");
  }
  if (Checksum::of(body.data(), body.size()) != digits) {
    throw data_error(where + ": the manifest's bytes do not match its own checksum");
  }
}

}  // namespace

int64_t StoredTensor::numel() const { return numel_of(shape); }

const StoredTensor* Manifest::find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const StoredTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

const StoredFile* Manifest::find_file(std::string_view name) const {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const StoredFile& file) { return file.name == name; });
  return found != files.end() ? &*found : nullptr;
}

std::string manifest_text(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const StoredFile& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"kind", file.rank_file ? "rank" : "side"},
                     {"bytes", file.bytes},
                     {"checksum", file.checksum}});
  }
  ordered_json tensors = ordered_json::array();
  for (const StoredTensor& tensor : manifest.tensors) {
    ordered_json slices = ordered_json::array();
    for (const StoredSlice& slice : tensor.slices) {
      slices.push_back({{"file", slice.file},
                        {"offset", slice.offset},
                        {"length", slice.length},
                        {"checksum", slice.checksum}});
    }
    tensors.push_back({{"name", tensor.name},
                       {"dtype", name_of(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"slices", std::move(slices)}});
  }
  // One tensor a line: a person can read it, and a diff shows which tensor changed.
  std::string text = fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"step\": {},\n  \"world\": {{\"ranks\": "
      "{}}},\n  \"config\": {},\n  \"data_cursor\": {},\n  \"random_state\": {},\n  \"state\": {},"
      "\n  \"files\": [",
      kFormat, kVersion, manifest.step, manifest.ranks, json(manifest.config).dump(),
      json_or_null(manifest.data_cursor).dump(), json_or_null(manifest.random_state).dump(),
      json_or_null(manifest.state).dump());
  for (size_t i = 0; i < files.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + files[i].dump();
  }
  text += "\n  ],\n  \"tensors\": [";
  for (size_t i = 0; i < tensors.size(); ++i) {
    text += (i == 0 ? "\n    " : ",\n    ") + tensors[i].dump();
  }
  text += "\n  ]";
  text += kChecksumKey;
  text += Checksum::of(text.data(), text.size());
  text += kTail;
  return text;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  verify_own_bytes(text, where);
  const json root = parse_json(text, where);
  if (string_member(root, "format", where) != kFormat) {
    throw data_error(where + ": key \"format\" is not \"athanor-checkpoint\"");
  }
  const int64_t version = integer_member(root, "version", where);
  if (version != kVersion) {
    throw data_error(fmt::format("{}: version {} of the format; this program reads {}", where,
                                 version, kVersion));
  }
  Manifest manifest;
  manifest.step = integer_member(root, "step", where);
  const int64_t ranks = integer_member(member(root, "world", where), "ranks", where + ": world");
  if (manifest.step < 0) throw data_error(where + ": key \"step\" is negative");
  if (ranks < 1 || ranks > 99'999) {
    throw data_error(where + ": world: key \"ranks\" must be 1 to 99999");
  }
  manifest.ranks = static_cast<int>(ranks);
  manifest.config = string_member(root, "config", where);
  manifest.data_cursor = text_or_empty(member(root, "data_cursor", where));
  manifest.random_state = text_or_empty(member(root, "random_state", where));
  manifest.state = text_or_empty(member(root, "state", where));

  const json& files = member(root, "files", where);
  const json& tensors = member(root, "tensors", where);
  if (!files.is_array() || !tensors.is_array()) {
    throw data_error(where + ": keys \"files\" and \"tensors\" must be lists");
  }
  std::set<std::string> names;
  for (const json& element : files) {
    manifest.files.push_back(parse_file(element, where));
    if (manifest.files.back().name == kManifestName ||
        !names.insert(manifest.files.back().name).second) {
      throw data_error(
          fmt::format("{}: file {} is listed twice", where, printable(manifest.files.back().name)));
    }
  }
  const auto rank_files = std::count_if(manifest.files.begin(), manifest.files.end(),
                                        [](const StoredFile& file) { return file.rank_file; });
  if (rank_files != manifest.ranks) {
    throw data_error(fmt::format("{}: {} rank files are listed for {} ranks", where, rank_files,
                                 manifest.ranks));
  }
  for (const json& element : tensors) {
    manifest.tensors.push_back(parse_tensor(element, manifest, where));
    const size_t n = manifest.tensors.size();
    if (n > 1 && manifest.tensors[n - 2].name >= manifest.tensors[n - 1].name) {
      throw data_error(fmt::format("{}: tensor {} is listed twice or out of order", where,
                                   printable(manifest.tensors[n - 1].name)));
    }
  }
  return manifest;
}

}  // namespace athanor::checkpoint
