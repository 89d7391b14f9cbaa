// index.json of a pack, as text.
#pragma once

#include <string>
#include <string_view>

#include "data/shards.h"

namespace athanor::data {

constexpr const char* kIndexFile = "index.json";

/// The whole file: the index as JSON, whose last member is the checksum of all bytes before it.
std::string write_pack_index(const PackIndex& index);
/// The reverse. data_error "`name`: what" for anything but what write_pack_index gives.
PackIndex parse_pack_index(std::string_view content, const std::string& name);
/// True when `content` is an index of packed shards, of whatever version and state.
bool looks_like_pack_index(std::string_view content);

}  // namespace athanor::data
