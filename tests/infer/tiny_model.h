// Model directories of random models that are made in a moment, for tests of what runs finished
// models.
#pragma once

#include <optional>
#include <vector>

#include "checkpoint/model_directory.h"
#include "data/text_settings.h"
#include "data/tokenizer.h"
#include "model/lab.h"
#include "support/scratch.h"

namespace athanor::test {

/// model::small_config for text: its vocabulary is the byte tokenizer's.
inline model::ModelConfig text_config() {
  model::ModelConfig config = model::small_config();
  config.vocab = 258;
  config.bos = 256;
  config.eos = 257;
  return config;
}

struct ModelKind {
  uint64_t seed = 1;
  bool tokenizer = true;  ///< the byte tokenizer's files lie beside the weights
  bool bos = false;       ///< documents begin with BOS
  std::optional<int64_t> sequence = std::nullopt;  ///< the longest of its training
};

/// Writes a model directory with random weights, stored in fp32.
inline fs::path write_model(const fs::path& directory, const model::ModelConfig& config,
                            const ModelKind& kind = {}) {
  Arena values("values");
  values.reserve(size_t{64} << 20);
  model::Parameters parameters(config, ops::Precision::kFp32, values);
  model::randomise(parameters, kind.seed);
  std::vector<checkpoint::SideFile> files;
  if (kind.tokenizer) {
    for (auto& [name, content] :
         data::model_tokenizer_files(*data::make_byte_tokenizer(), {kind.bos, kind.sequence})) {
      files.push_back({name, content});
    }
  }
  checkpoint::export_model(directory, config, checkpoint::weights_of(parameters), files,
                           {.dtype = DType::kF32});
  return directory;
}

}  // namespace athanor::test
