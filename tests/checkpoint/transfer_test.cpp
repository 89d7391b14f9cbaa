// Models in and out: byte for byte what they were, and nothing at all where something is wrong.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/model_transfer.h"
#include "checkpoint/tiny_parameters.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)
using nlohmann::json;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

/// Both directories hold the same weight files and the same index.
void expect_same_weights(const fs::path& made, const fs::path& reference) {
  for (const std::string& name : names_in(reference)) {
    if (!name.starts_with("model")) continue;
    ASSERT_TRUE(fs::exists(made / name)) << name;
    if (name.ends_with(".json")) {
      EXPECT_EQ(json::parse(read_file(made / name)), json::parse(read_file(reference / name)));
    } else {
      EXPECT_TRUE(read_file(made / name) == read_file(reference / name)) << name;
    }
  }
  EXPECT_EQ(json::parse(read_file(made / "config.json")),
            json::parse(read_file(reference / "config.json")));
}

class Transfer : public testing::Test {
 protected:
  void SetUp() override {
    if (!golden_folder("legacy")) GTEST_SKIP() << golden_absent("legacy");
    legacy_ = *golden_folder("legacy");
    native_ = *golden_folder("tiny");
    half_ = *golden_folder("native_bf16");
  }
  fs::path legacy_, native_, half_;
  ScratchFolder scratch_;
};

constexpr TransferOptions kLegacyShards{.layout = Layout::kLegacy, .shard_bytes = 400'000};

TEST_F(Transfer, LegacyAndNativeBecomeEachOtherByteForByte) {
  EXPECT_EQ(export_opened(open_model(legacy_), scratch_ / "native", {}), DType::kF32);
  expect_same_weights(scratch_ / "native", native_);
  export_opened(open_model(native_), scratch_ / "legacy", kLegacyShards);
  expect_same_weights(scratch_ / "legacy", legacy_);
  export_opened(open_model(scratch_ / "legacy"), scratch_ / "again", {});
  expect_same_weights(scratch_ / "again", native_);
}

TEST_F(Transfer, AnImportedModelComesOutAsItWentIn) {
  EXPECT_EQ(import_opened(open_model(legacy_), scratch_ / "fp32"), DType::kF32);
  TransferOptions fp32{.dtype = DType::kF32};
  export_opened(open_model(scratch_ / "fp32"), scratch_ / "native", fp32);
  expect_same_weights(scratch_ / "native", native_);
  fp32 = kLegacyShards;
  fp32.dtype = DType::kF32;
  export_opened(open_model(scratch_ / "fp32"), scratch_ / "legacy", fp32);
  expect_same_weights(scratch_ / "legacy", legacy_);

  EXPECT_EQ(import_opened(open_model(half_), scratch_ / "bf16"), DType::kBF16);
  export_opened(open_model(scratch_ / "bf16"), scratch_ / "half", {.shard_bytes = 190'000});
  expect_same_weights(scratch_ / "half", half_);
  // bf16 in the legacy layout and back, fp32 and back.
  export_opened(open_model(half_), scratch_ / "half legacy", {.layout = Layout::kLegacy});
  export_opened(open_model(scratch_ / "half legacy"), scratch_ / "back", {.shard_bytes = 190'000});
  expect_same_weights(scratch_ / "back", half_);
  export_opened(open_model(half_), scratch_ / "wide", {.dtype = DType::kF32});
  export_opened(open_model(scratch_ / "wide"), scratch_ / "narrow",
                {.dtype = DType::kBF16, .shard_bytes = 190'000});
  expect_same_weights(scratch_ / "narrow", half_);
}

TEST_F(Transfer, AnImportedModelIsACheckpoint) {
  import_opened(open_model(half_), scratch_ / "deep/er/imported");
  const fs::path imported = scratch_ / "deep/er/imported";
  EXPECT_EQ(names_in(imported.parent_path()), std::set<std::string>{"imported"});
  const Checkpoint checkpoint = Checkpoint::open(imported);
  checkpoint.verify();
  EXPECT_EQ(checkpoint.step(), 0);
  EXPECT_EQ(checkpoint.manifest().tensors.size(), 99u);
  EXPECT_EQ(checkpoint.manifest().find("model.norm.weight")->dtype, DType::kBF16);
  EXPECT_EQ(checkpoint.manifest().find("model.layers.0.mlp.gate.balancing_biases")->dtype,
            DType::kF32);
  OwnParameters from_checkpoint(checkpoint.config()), from_directory(checkpoint.config());
  open_model(imported).load(*from_checkpoint);
  open_model(half_).load(*from_directory);
  EXPECT_EQ(from_checkpoint.all(), from_directory.all());
}

TEST_F(Transfer, TheFilesBesideTheWeightsGoAlong) {
  const fs::path source = scratch_ / "source";
  fs::copy(native_, source);
  const std::map<std::string, std::string> files = {
      {"tokenizer.json", "{\"a\":1}"},
      {"tokenizer_config.json", "{ }\n"},
      {"tokenizer.model", std::string("\x0a\x00", 2)},
      {"special_tokens_map.json", "{}"},
      {"chat_template.jinja", "{{ x }}"},
      {"added_tokens.json", "{}"},
      {"generation_config.json", "{\"temperature\": 0.6}"}};
  for (const auto& [name, content] : files) write_bytes(source / name, content);
  write_bytes(source / "README.md", "left behind");
  import_opened(open_model(source), scratch_ / "imported");
  export_opened(open_model(scratch_ / "imported"), scratch_ / "out", {});
  export_opened(open_model(scratch_ / "out"), scratch_ / "legacy", {.layout = Layout::kLegacy});
  for (const char* made : {"out", "legacy"}) {
    for (const auto& [name, content] : files) {
      EXPECT_EQ(read_file(scratch_ / made / name), content) << made << name;
    }
    EXPECT_FALSE(fs::exists(scratch_ / made / "README.md"));
  }
}

/// Every way out refuses with these words, and leaves nothing.
void expect_refused_everywhere(const ScratchFolder& scratch, const fs::path& model,
                               const std::vector<std::string>& words) {
  const std::set<std::string> before = names_in(scratch.path());
  expect_error(ExitCode::kData, words,
               [&] { import_opened(open_model(model), scratch / "deep/imported"); });
  for (const Layout layout : {Layout::kNative, Layout::kLegacy}) {
    expect_error(ExitCode::kData, words, [&] {
      export_opened(open_model(model), scratch / "deep/exported", {.layout = layout});
    });
  }
  EXPECT_EQ(names_in(scratch.path()), before);
}

TEST_F(Transfer, AConfigThatDisagreesWithTheShapesIsRefusedInEveryDimension) {
  struct Change {
    std::vector<std::pair<const char*, json>> keys;
    std::vector<std::string> words;
  };
  const json two_kinds = {"hybrid", "hybrid"};
  const json four_kinds = {"hybrid", "hybrid", "hybrid", "hybrid"};
  const std::vector<Change> native = {
      {{{"hidden_size", 65}}, {"F32[128, 64]", "F32[128, 65]"}},
      {{{"num_attention_heads", 6}}, {"q_proj", "F32[64, 64]", "F32[96, 64]"}},
      {{{"num_key_value_heads", 1}}, {"k_proj", "F32[32, 64]", "F32[16, 64]"}},
      {{{"head_dim", 32}}, {"q_proj", "F32[64, 64]", "F32[128, 64]"}},
      {{{"num_experts", 5}}, {"F32[5, 16]", "F32[6, 16]"}},
      {{{"moe_intermediate_size", 49}}, {"gate_up_proj", "F32[4, 96, 64]", "F32[4, 98, 64]"}},
      {{{"router_hidden_size", 17}}, {"gate.down_proj", "F32[16, 64]", "F32[17, 64]"}},
      {{{"vocab_size", 129}}, {"embed_tokens", "F32[128, 64]", "F32[129, 64]"}},
      {{{"num_hidden_layers", 2}, {"layer_types", two_kinds}},
       {"32 tensors that config.json does not call for", "layers.2."}},
      {{{"num_hidden_layers", 4}, {"layer_types", four_kinds}},
       {"32 tensors missing", "layers.3."}}};
  const std::vector<Change> legacy = {
      {{{"hidden_size", 65}}, {"F32[128, 64]", "F32[128, 65]"}},
      {{{"num_attention_heads", 6}}, {"linear_q", "F32[64, 64]", "F32[96, 64]"}},
      {{{"num_query_groups", 1}, {"num_key_value_heads", 1}}, {"linear_k", "F32[16, 64]"}},
      {{{"head_dim", 32}, {"kv_channels", 32}}, {"linear_q", "F32[128, 64]"}},
      {{{"num_experts", 5}}, {"6 tensors missing", "local_experts.4."}},
      {{{"num_experts", 3}}, {"6 tensors that config.json does not", "local_experts.3."}},
      {{{"ffn_hidden_size", 98}}, {"linear_fc1", "F32[96, 64]", "F32[98, 64]"}},
      {{{"zaya_mlp_expansion", 17}}, {"router.down_proj", "F32[16, 64]", "F32[17, 64]"}},
      {{{"vocab_size", 129}}, {"embed_tokens", "F32[129, 64]"}},
      {{{"num_hidden_layers", 4}}, {"38 tensors that config.json does not call for"}},
      {{{"num_hidden_layers", 8}}, {"38 tensors missing", "model.layers.6."}}};
  int number = 0;
  const auto check = [&](const fs::path& folder, const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      const fs::path model = scratch_ / ("model" + std::to_string(number++));
      fs::copy(folder, model);
      fs::permissions(model, fs::perms::owner_all);
      json config = json::parse(read_file(folder / "config.json"));
      for (const auto& [key, value] : change.keys) config[key] = value;
      fs::remove(model / "config.json");
      write_bytes(model / "config.json", config.dump());
      SCOPED_TRACE(change.keys.front().first);
      expect_refused_everywhere(scratch_, model, change.words);
    }
  };
  check(native_, native);
  check(legacy_, legacy);
}

TEST_F(Transfer, WhatIsMissingAndWhatIsTooMuchAreBothListed) {
  const fs::path model = scratch_ / "model";
  fs::copy(legacy_, model);
  fs::remove(model / "config.json");
  fs::copy(native_ / "config.json", model / "config.json");  // native config, legacy weights
  expect_refused_everywhere(
      scratch_, model,
      {"96 tensors missing: ", "model.input_hidden_states_scale",
       "114 tensors that config.json does not call for: ", "model.final_norm.weight", "more"});
}

TEST_F(Transfer, AWeightThatIsNoNumberIsRefusedByPlace) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    OwnParameters parameters;
    parameters.count_up();
    export_model(scratch_ / "model", parameters->config(), weights_of(*parameters), {},
                 {.dtype = DType::kF32, .layout = Layout::kLegacy});
    // The last element of expert 1's down projection, as the file has it.
    const SafetensorsFile file(scratch_ / "model/model.safetensors");
    const std::string name = "model.layers.3.zaya_block.experts.local_experts.1.linear_fc2.weight";
    const TensorEntry& entry = file.at(name);
    std::string bytes = read_file(file.path());
    std::memcpy(bytes.data() + entry.begin + entry.bytes - 4, &bad, 4);
    write_bytes(file.path(), bytes);
    expect_refused_everywhere(scratch_, scratch_ / "model",
                              {name, "model.safetensors", "NaN", "element 5"});
    OwnParameters target;
    expect_error(ExitCode::kData, {name, "NaN"},
                 [&] { load_weights(scratch_ / "model", *target); });
    fs::remove_all(scratch_ / "model");
  }
}

TEST_F(Transfer, AValueThatBf16CannotHoldIsNotMadeInfinite) {
  OwnParameters parameters;
  parameters.count_up();
  parameters->find("model.norm.weight").value.as<float>()[1] = 3.4e38f;
  export_model(scratch_ / "model", parameters->config(), weights_of(*parameters), {},
               {.dtype = DType::kF32});
  expect_error(ExitCode::kData, {"model.norm.weight", "3.4e+38", "element 1", "fp32"}, [&] {
    export_opened(open_model(scratch_ / "model"), scratch_ / "out", {.dtype = DType::kBF16});
  });
  export_opened(open_model(scratch_ / "model"), scratch_ / "out", {.dtype = DType::kF32});
  EXPECT_EQ(names_in(scratch_.path()), (std::set<std::string>{"model", "out"}));
}

TEST_F(Transfer, AnImportReplacesNothingAndAnExportNotItsSource) {
  import_opened(open_model(native_), scratch_ / "imported");
  const std::string manifest = read_file(scratch_ / "imported/manifest.json");
  expect_error(ExitCode::kUsage, {"imported", "replaces nothing"},
               [&] { import_opened(open_model(half_), scratch_ / "imported/"); });
  EXPECT_EQ(read_file(scratch_ / "imported/manifest.json"), manifest);
  write_bytes(scratch_ / "file", "x");
  expect_error(ExitCode::kUsage, {"file"},
               [&] { import_opened(open_model(half_), scratch_ / "file"); });
  fs::create_directory(scratch_ / "empty");
  import_opened(open_model(half_), scratch_ / "empty");
  EXPECT_TRUE(is_checkpoint(scratch_ / "empty"));

  export_opened(open_model(native_), scratch_ / "model", {});
  fs::create_directory_symlink(scratch_ / "model", scratch_ / "link");
  for (const char* same : {"model", "model/", "link"}) {
    expect_error(ExitCode::kUsage, {"the model that is read"}, [&] {
      export_opened(open_model(scratch_ / "model"), scratch_ / same, {.layout = Layout::kLegacy});
    });
  }
  expect_same_weights(scratch_ / "model", native_);
}

/// Does something when the n-th piece is read.
class Interrupted final : public WeightSource {
 public:
  Interrupted(const WeightSource& inner, int after, std::function<void()> action)
      : inner_(inner), left_(after), action_(std::move(action)) {}
  DType dtype(const model::ParameterSpec& spec) const override { return inner_.dtype(spec); }
  void read(const model::ParameterSpec& spec, int64_t begin, const Tensor& into) const override {
    if (left_-- == 0) action_();
    inner_.read(spec, begin, into);
  }
  std::string place(const model::ParameterSpec& spec, int64_t element) const override {
    return inner_.place(spec, element);
  }

 private:
  const WeightSource& inner_;
  mutable int left_;
  std::function<void()> action_;
};

TEST_F(Transfer, ASourceThatVanishesHalfWayIsReadToItsEndOrRefused) {
  for (const fs::path& folder : {native_, legacy_}) {
    const fs::path model = scratch_ / "model";
    fs::copy(folder, model);
    const OpenedModel opened = open_model(model);
    const OpenedWeights weights(opened);
    const Interrupted removed(weights.source(), 20, [&] { fs::remove_all(model); });
    export_model(scratch_ / "out", opened.config, removed, weights.side_files(),
                 {.dtype = DType::kF32});  // its files were open
    expect_same_weights(scratch_ / "out", native_);
  }
  // A checkpoint opens its files when they are needed.
  import_opened(open_model(half_), scratch_ / "imported");
  const OpenedModel opened = open_model(scratch_ / "imported");
  const OpenedWeights weights(opened);
  const Interrupted removed(weights.source(), 0, [&] { fs::remove_all(opened.directory); });
  expect_error(ExitCode::kData, {"imported", "rank-00000.safetensors"},
               [&] { export_model(scratch_ / "new", opened.config, removed, {}, {}); });
  EXPECT_EQ(names_in(scratch_.path()), std::set<std::string>{"out"});
}

TEST_F(Transfer, ASourceThatIsCutShortHalfWayIsRefused) {
  export_opened(open_model(half_), scratch_ / "out", {.shard_bytes = 190'000});
  fs::copy(native_, scratch_ / "model");
  fs::permissions(scratch_ / "model/model.safetensors", fs::perms::owner_all);
  const OpenedModel opened = open_model(scratch_ / "model");
  const OpenedWeights weights(opened);
  const Interrupted cut(weights.source(), 30,
                        [&] { fs::resize_file(opened.directory / "model.safetensors", 100'000); });
  expect_error(ExitCode::kData, {"model.safetensors", "ended while it was read"},
               [&] { export_model(scratch_ / "out", opened.config, cut, {}, {}); });
  expect_same_weights(scratch_ / "out", half_);
  EXPECT_EQ(names_in(scratch_.path()), (std::set<std::string>{"model", "out"}));
}

TEST_F(Transfer, ATargetThatVanishesHalfWayIsNoSuccess) {
  export_opened(open_model(half_), scratch_ / "out", {.shard_bytes = 190'000});
  const OpenedModel opened = open_model(native_);
  const OpenedWeights weights(opened);
  for (const uint64_t shard : {uint64_t{1} << 30, uint64_t{200'000}}) {
    const Interrupted gone(weights.source(), 30, [&] {
      for (const std::string& name : names_in(scratch_.path())) {
        if (name.starts_with(".out.tmp")) fs::remove_all(scratch_ / name);
      }
    });
    ExportOptions how;
    how.shard_bytes = shard;
    expect_error(ExitCode::kResources, {".out.tmp"},
                 [&] { export_model(scratch_ / "out", opened.config, gone, {}, how); });
    expect_same_weights(scratch_ / "out", half_);
    EXPECT_EQ(names_in(scratch_.path()), std::set<std::string>{"out"});
  }
}

TEST_F(Transfer, AnImportDoesNotReplaceWhatCameMeanwhile) {
  // Two imports of one name: the one that is done last.
  const fs::path target = scratch_ / "imported";
  CheckpointWriter writer(target, scratch_ / ".imported.tmp1", 0);
  const OpenedModel opened = open_model(native_);
  const OpenedWeights weights(opened);
  std::vector<float> whole;
  std::vector<TensorLayout> layout;
  const std::vector<ModelTensor> tensors = model_tensors(opened.config);
  for (const auto& [spec, balancing] : tensors) {
    layout.push_back({spec.name, DType::kF32, spec.shape});
  }
  const RankRecord record =
      write_rank(writer.temporary(), 0, layout, [&](size_t i, const auto& write) {
        whole.resize(static_cast<size_t>(tensors[i].spec.numel()));
        weights.source().read(tensors[i].spec, 0,
                              Tensor::of(whole.data(), {tensors[i].spec.numel()}));
        write(whole.data(), whole.size() * sizeof(float));
      });
  import_opened(open_model(half_), target);
  const std::string manifest = read_file(target / "manifest.json");
  CheckpointInfo info;
  info.dtype = DType::kF32;
  expect_error(ExitCode::kUsage, {"imported", "nothing is replaced"},
               [&] { writer.commit(info, opened.config, {&record, 1}, {}); });
  EXPECT_EQ(read_file(target / "manifest.json"), manifest);
}

/// Runs `work` in a process that is killed once a file that it writes would pass `bytes`.
bool killed_at(rlim_t bytes, const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

TEST_F(Transfer, AKilledOneLeavesNothingThatLooksComplete) {
  export_opened(open_model(half_), scratch_ / "old", {.shard_bytes = 190'000});
  const auto check = [&](const std::function<void()>& work, const std::vector<rlim_t>& sizes) {
    for (const rlim_t bytes : sizes) {
      ASSERT_TRUE(killed_at(bytes, work)) << bytes;
      expect_same_weights(scratch_ / "old", half_);
      for (const std::string& name : names_in(scratch_.path())) {
        if (name == "old") continue;
        EXPECT_TRUE(name.starts_with(".")) << name;
        EXPECT_THROW(OpenedWeights(open_model(scratch_ / name)), Error) << name;
        fs::remove_all(scratch_ / name);
      }
    }
  };
  const std::vector<rlim_t> sizes = {0, 100, 5'000, 100'000, 600'000};
  check([&] { export_opened(open_model(native_), scratch_ / "new", {}); }, sizes);
  check([&] { export_opened(open_model(legacy_), scratch_ / "old", {}); }, sizes);
  check([&] { export_opened(open_model(native_), scratch_ / "new", kLegacyShards); },
        {10'000, 300'000});
  check([&] { import_opened(open_model(native_), scratch_ / "new"); }, sizes);
}

TEST_F(Transfer, WhatAKilledOneLeftIsNamed) {
  for (const char* name : {".new.tmp1", ".new.tmp1.old", ".newer.tmp1", ".new.tmp"}) {
    fs::create_directory(scratch_ / name);
  }
  for (const bool import : {false, true}) {
    testing::internal::CaptureStderr();
    if (import) {
      fs::remove_all(scratch_ / "new");
      import_opened(open_model(native_), scratch_ / "new");
    } else {
      export_opened(open_model(native_), scratch_ / "new", {});
    }
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("/.new.tmp1 is what a process that was killed has left"), std::string::npos)
        << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST(ShardSize, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(parse_shard_size("5GB"), 5'000'000'000u);
  EXPECT_EQ(parse_shard_size("300MB"), 300'000'000u);
  EXPECT_EQ(parse_shard_size("7KB"), 7'000u);
  EXPECT_EQ(parse_shard_size("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(parse_shard_size("123"), 123u);
  for (const char* text : {"", "0", "0GB", "5 GB", "GB", "-1", "5TB", "1.5GB", "99999999999999GB",
                           "99999999999999999999", "5gb "}) {
    expect_error(ExitCode::kUsage, {text, "5GB"}, [&] { parse_shard_size(text); });
  }
}

}  // namespace
}  // namespace athanor::test
