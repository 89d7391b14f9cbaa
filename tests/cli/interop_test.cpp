// What Hugging Face's library makes of an exported model, where a Python that has it is found.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "checkpoint/checkpoint.h"
#include "infer/tiny_model.h"
#include "support/program.h"

namespace athanor::test {
namespace {

/// Output and exit code of a command of the shell.
std::pair<std::string, int> shell(const std::string& command) {
  std::string out;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  while (pipe != nullptr) {
    const size_t n = fread(buffer.data(), 1, buffer.size(), pipe);
    if (n == 0) break;
    out.append(buffer.data(), n);
  }
  return {out, pipe == nullptr ? -1 : pclose(pipe)};
}

TEST(Interop, HuggingFaceComputesTheSameFromAnExportedModel) {
  const char* named = std::getenv("ATHANOR_PYTHON");
  const std::string python = named == nullptr ? "python3" : named;
  const auto found = shell("'" + python +
                           "' -c 'import torch, transformers as t; "
                           "print(t.__version__, torch.__version__.split(\"+\")[0])'");
  if (found.second != 0 || found.first.find("5.24.0 2.13.0\n") == std::string::npos) {
    GTEST_SKIP()
        << "Hugging Face's reading of an exported model is not compared: " << python
        << " has no transformers==5.24.0 with torch==2.13.0 (ATHANOR_PYTHON names another)";
  }
  const ScratchFolder folder;
  model::ModelConfig config = text_config();
  config.layers = 3;
  config.layer_kinds.assign(3, model::LayerKind::kFull);
  config.hidden = 48;
  config.heads = {4, 2, 16};
  config.partial_rotary = 0.5;
  config.experts = 4;
  config.expert_inner = 24;
  config.router = 12;
  config.max_positions = 256;
  config.sliding_window = 0;
  Arena values("values");
  values.reserve(size_t{16} << 20);
  model::Parameters parameters(config, ops::Precision::kFp32, values);
  model::randomise(parameters, 7);
  std::vector<checkpoint::SideFile> files;
  for (auto& [name, content] : data::model_tokenizer_files(*data::make_byte_tokenizer(), {})) {
    files.push_back({name, content});
  }
  const fs::path saved = checkpoint::save_checkpoint(folder.path(), {.step = 1}, config,
                                                     checkpoint::slices_of(parameters), files);
  const std::string exported = (folder / "model").string();
  const Outcome outcome =
      athanor({"checkpoint", "export", saved.string(), exported, "--dtype", "fp32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto [out, code] =
      shell("'" + python +
            "' '" ATHANOR_SOURCE_DIR "/tests/interop/model_check.py' '" ATHANOR_BINARY "' '" +
            exported + "'");
  EXPECT_EQ(code, 0) << out;
}

}  // namespace
}  // namespace athanor::test
