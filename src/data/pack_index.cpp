#include "data/pack_index.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/checksum.h"

namespace athanor::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kIndexVersion = 1;
constexpr std::string_view kBegin = "{\n  \"format\": \"athanor-pack\"";
constexpr std::string_view kChecksumKey = ",\n  \"checksum\": \"";
constexpr std::string_view kEnd = "\"\n}\n";

Json json_of(const std::vector<ShardEntry>& shards) {
  Json list = Json::array();
  for (const ShardEntry& shard : shards) {
    list.push_back({{"file", shard.file},
                    {"tokens", shard.tokens},
                    {"documents", shard.documents},
                    {"text_bytes", shard.text_bytes},
                    {"file_bytes", shard.file_bytes},
                    {"checksum", shard.checksum}});
  }
  return list;
}

Json json_of(const PackIndex& index) {
  Json files = Json::array();
  for (const SideFile& file : index.files) {
    files.push_back(
        {{"file", file.file}, {"file_bytes", file.file_bytes}, {"checksum", file.checksum}});
  }
  const auto split = [&](Split which) -> Json {
    return {{"tokens", index.tokens(which)},
            {"documents", index.documents(which)},
            {"text_bytes", index.text_bytes(which)},
            {"shards", json_of(index.shards(which))}};
  };
  return {{"format", "athanor-pack"},
          {"version", kIndexVersion},
          {"tokenizer",
           {{"identity", index.tokenizer},
            {"kind", index.tokenizer_kind},
            {"vocab_size", index.vocab_size}}},
          {"bos", index.bos},
          {"eos", index.eos},
          {"train", split(Split::kTrain)},
          {"held_out", split(Split::kHeldOut)},
          {"files", std::move(files)}};
}

/// A file's name in the pack's folder: never a path out of it.
std::string name_in(const Json& entry, const std::string& index) {
  std::string name = entry.at("file").get<std::string>();
  if (!is_plain_file_name(name)) {
    throw data_error(index + ": the index lists a file that is no plain name");
  }
  return name;
}

std::vector<ShardEntry> shards_of(const Json& list, const std::string& name) {
  std::vector<ShardEntry> shards;
  for (const Json& entry : list) {
    ShardEntry shard;
    shard.file = name_in(entry, name);
    shard.tokens = entry.at("tokens").get<uint64_t>();
    shard.documents = entry.at("documents").get<uint64_t>();
    shard.text_bytes = entry.at("text_bytes").get<uint64_t>();
    shard.file_bytes = entry.at("file_bytes").get<uint64_t>();
    shard.checksum = entry.at("checksum").get<std::string>();
    shards.push_back(std::move(shard));
  }
  return shards;
}

uint64_t sum(const std::vector<ShardEntry>& shards, uint64_t ShardEntry::* figure) {
  uint64_t total = 0;
  for (const ShardEntry& shard : shards) total += shard.*figure;
  return total;
}

}  // namespace

uint64_t PackIndex::tokens(Split split) const { return sum(shards(split), &ShardEntry::tokens); }
uint64_t PackIndex::documents(Split split) const {
  return sum(shards(split), &ShardEntry::documents);
}
uint64_t PackIndex::text_bytes(Split split) const {
  return sum(shards(split), &ShardEntry::text_bytes);
}

std::string to_json(const PackIndex& index) { return json_of(index).dump(2); }

std::string write_pack_index(const PackIndex& index) {
  std::string content = to_json(index);
  content.resize(content.size() - 2);  // "\n}": the checksum comes last
  content += kChecksumKey;
  const std::string checksum = Checksum::of(content.data(), content.size());
  return content + checksum + std::string(kEnd);
}

bool looks_like_pack_index(std::string_view content) { return content.starts_with(kBegin); }

PackIndex parse_pack_index(std::string_view content, const std::string& name) {
  if (!looks_like_pack_index(content)) throw data_error(name + ": not the index of packed shards");
  const Error damaged =
      data_error(name + ": the index is damaged or was edited (checksum); pack the text again");
  constexpr size_t kHexDigits = 32;
  if (content.size() < kEnd.size() + kHexDigits || !content.ends_with(kEnd)) throw damaged;
  const std::string_view checked = content.substr(0, content.size() - kEnd.size() - kHexDigits);
  if (!checked.ends_with(kChecksumKey)) throw damaged;
  if (content.substr(checked.size(), kHexDigits) != Checksum::of(checked.data(), checked.size())) {
    throw damaged;
  }
  try {
    const Json json = Json::parse(content);
    const int version = json.at("version").get<int>();
    if (version != kIndexVersion) {
      throw data_error(fmt::format("{}: pack version {}; this program reads version {}", name,
                                   version, kIndexVersion));
    }
    PackIndex index;
    index.tokenizer = json.at("tokenizer").at("identity").get<std::string>();
    index.tokenizer_kind = json.at("tokenizer").at("kind").get<std::string>();
    index.vocab_size = json.at("tokenizer").at("vocab_size").get<int32_t>();
    index.bos = json.at("bos").get<bool>();
    index.eos = json.at("eos").get<bool>();
    index.train = shards_of(json.at("train").at("shards"), name);
    index.held_out = shards_of(json.at("held_out").at("shards"), name);
    for (const Json& entry : json.at("files")) {
      index.files.push_back({name_in(entry, name), entry.at("file_bytes").get<uint64_t>(),
                             entry.at("checksum").get<std::string>()});
    }
    return index;
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("{}: the index lacks something: {}", name, error.what()));
  }
}

}  // namespace athanor::data
