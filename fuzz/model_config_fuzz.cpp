// config.json of either layout: whatever is accepted describes a model that can be counted and written back, in both.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "checkpoint/model_directory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace athanor;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const model::ModelConfig config = checkpoint::parse_model_config(text, "input");
    if (model::count_parameters(config).total < 1) std::abort();
    const std::string written = checkpoint::model_config_json(config, DType::kBF16);
    const model::ModelConfig again = checkpoint::parse_model_config(written, "written");
    if (checkpoint::model_config_json(again, DType::kBF16) != written) std::abort();
    if (config.sliding_window == 1) return 0;  // the legacy layout cannot say that
    const std::string legacy = checkpoint::legacy_config_json(config, DType::kBF16);
    const model::ModelConfig back = checkpoint::parse_model_config(legacy, "legacy");
    if (checkpoint::model_config_json(back, DType::kBF16) != written) std::abort();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData) std::abort();
  }
  return 0;
}
