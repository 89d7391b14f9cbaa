// The two small JSON texts about tokens that the program takes from others: a line of `tokenizer decode` and
// tokenizer_config.json.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/text_settings.h"
#include "data/token_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<int32_t> ids;
  if (athanor::data::ids_of_json_line(text, ids).empty()) {
    for (const int32_t id : ids) athanor::require(id >= 0, "a negative token id passed");
  }
  try {
    const auto settings = athanor::data::parse_text_settings(text, "fuzz");
    athanor::require(settings.sequence.value_or(1) >= 1, "a sequence without a token passed");
  } catch (const athanor::Error& error) {
    if (error.code() != athanor::ExitCode::kData) throw;
  }
  return 0;
}
