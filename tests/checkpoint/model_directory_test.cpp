#include "checkpoint/model_directory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/open_model.h"
#include "checkpoint/safetensors.h"
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

TEST(ModelDirectory, ExportGivesTheReferenceWritersBytes) {
  const auto folder = golden_folder("tiny");
  ASSERT_TRUE(folder);
  const ScratchFolder scratch;
  const model::ModelConfig config = read_model_config(*folder);
  OwnParameters parameters(config);
  load_weights(*folder, *parameters);
  export_model(scratch / "out", config, weights_of(*parameters), {}, {.dtype = DType::kF32});
  EXPECT_EQ(names_in(scratch / "out"),
            (std::set<std::string>{"config.json", "generation_config.json", "model.safetensors"}));
  EXPECT_TRUE(read_file(scratch / "out" / "model.safetensors") ==
              read_file(*folder / "model.safetensors"));
  EXPECT_EQ(json::parse(read_file(scratch / "out" / "config.json")),
            json::parse(read_file(*folder / "config.json")));
}

TEST(ModelDirectory, TheSkipBiasIsKeptAsStored) {
  const auto folder = golden_folder("skip");
  if (!folder) GTEST_SKIP() << golden_absent("skip");
  OwnParameters parameters(read_model_config(*folder));
  load_weights(*folder, *parameters);
  const auto meta = json::parse(std::ifstream(*folder / "meta.json"));
  for (int64_t l = 0; l < parameters->config().layers; ++l) {
    EXPECT_EQ(parameters->balancing_biases().row<float>(l)[parameters->config().experts],
              meta.at("skip_bias").at(l).get<float>());
  }
}

TEST(ModelDirectory, ShardsAndOneFileHoldTheSame) {
  const ScratchFolder scratch;
  OwnParameters written;
  written.count_up();
  const std::vector<SideFile> sides{{"tokenizer.json", "{}"}};
  export_model(scratch / "one", written->config(), weights_of(*written), sides,
               {.dtype = DType::kF32});
  export_model(scratch / "many", written->config(), weights_of(*written), sides,
               {.dtype = DType::kF32, .shard_bytes = 200});
  EXPECT_GT(names_in(scratch / "many").size(), 6u);
  EXPECT_EQ(read_file(scratch / "many" / "tokenizer.json"), "{}");
  for (const char* name : {"one", "many"}) {
    OwnParameters read;
    const uint64_t version = read->version();
    load_weights(scratch / name, *read);
    EXPECT_EQ(read.all(), written.all()) << name;
    EXPECT_NE(read->version(), version);
  }
  const json index = json::parse(read_file(scratch / "many" / "model.safetensors.index.json"));
  EXPECT_EQ(index.at("weight_map").size(),
            model::count_parameters(written->config()).tensors_stored);
  EXPECT_EQ(index.at("metadata").at("total_parameters").get<int64_t>(), written->numel());
  EXPECT_EQ(index.at("metadata").at("total_size").get<size_t>(), written.all().size() * 4);
  for (const std::string& name : names_in(scratch / "many")) {
    if (!name.ends_with(".safetensors")) continue;
    const SafetensorsFile shard(scratch / "many" / name);
    uint64_t bytes = 0;
    for (const TensorEntry& entry : shard.entries()) bytes += entry.bytes;
    EXPECT_TRUE(bytes <= 200 || shard.entries().size() == 1) << name << " holds " << bytes;
  }
}

TEST(ModelDirectory, ATensorOfManyPiecesIsWrittenWhole) {
  model::ModelConfig config = tiny_config();
  config.vocab = 100'000;  // an embedding of 300,000 elements
  const ScratchFolder folder;
  OwnParameters parameters(config);
  parameters.count_up();
  export_model(folder / "model", config, weights_of(*parameters), {}, {.dtype = DType::kF32});
  OwnParameters read(config);
  const uint64_t before = read->version();
  load_weights(folder / "model", *read);
  EXPECT_EQ(read.all(), parameters.all());
  EXPECT_GT(read->version(), before)
      << "a model would go on with the packed copies of other weights";
}

TEST(ModelDirectory, Bf16RoundsWeightsAndKeepsBiases) {
  const ScratchFolder scratch;
  OwnParameters written;
  written.count_up();
  export_model(scratch / "out", written->config(), weights_of(*written), {}, {});
  OwnParameters read;
  load_weights(scratch / "out", *read);
  const std::vector<float> before = written.all(), after = read.all();
  const auto numel = static_cast<size_t>(written->numel());
  for (size_t i = 0; i < before.size(); ++i) {
    const float expected = i < numel ? static_cast<float>(bfloat16(before[i])) : before[i];
    ASSERT_EQ(after[i], expected) << i;
  }
  EXPECT_EQ(json::parse(read_file(scratch / "out" / "config.json")).at("dtype"), "bfloat16");
}

TEST(ModelDirectory, ExportReplacesAModelAndNothingElse) {
  const ScratchFolder scratch;
  OwnParameters written;
  const auto write = [&](const fs::path& path) {
    export_model(path, written->config(), weights_of(*written), {}, {.dtype = DType::kF32});
  };
  write(scratch / "out");
  written.count_up();
  write(scratch / "out/");  // over the first
  OwnParameters read;
  load_weights(scratch / "out", *read);
  EXPECT_EQ(read.all(), written.all());

  fs::create_directory(scratch / "empty");
  write(scratch / "empty");

  fs::create_directory(scratch / "thesis");
  write_bytes(scratch / "thesis" / "chapter1.txt", "years of work");
  expect_error(ExitCode::kUsage, {"thesis", "chapter1.txt"}, [&] { write(scratch / "thesis"); });
  EXPECT_EQ(read_file(scratch / "thesis" / "chapter1.txt"), "years of work");
  write_bytes(scratch / "file", "x");
  expect_error(ExitCode::kUsage, {"file", "not a directory"}, [&] { write(scratch / "file"); });
  EXPECT_EQ(names_in(scratch.path()), (std::set<std::string>{"out", "empty", "thesis", "file"}));
}

// A model directory of the tiny parameters that a test then spoils.
class SpoiledModel : public testing::Test {
 protected:
  void SetUp() override {
    written_.count_up();
    export_model(directory(), written_->config(), weights_of(*written_), {},
                 {.dtype = DType::kF32});
    for (const model::Parameter& parameter : written_->all()) {
      tensors_.push_back({parameter.spec.name, parameter.spec.shape, parameter.value});
    }
    const auto buffers = model::buffer_specs(written_->config());
    for (size_t l = 0; l < buffers.size(); ++l) {
      tensors_.push_back({buffers[l].name, buffers[l].shape,
                          written_->balancing_biases().slice_rows(static_cast<int64_t>(l), 1)});
    }
  }
  fs::path directory() const { return scratch_ / "model"; }
  NamedTensor& tensor(const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const NamedTensor& t) { return t.name == name; });
  }
  void rewrite(const char* file = "model.safetensors") {
    StagedSafetensors(directory() / file, tensors_).commit();
  }
  void refused(const std::vector<std::string>& words) {
    OwnParameters target;
    const std::vector<float> before = target.all();
    expect_error(ExitCode::kData, words, [&] { load_weights(directory(), *target); });
    EXPECT_EQ(target.all(), before) << "something was read before all was checked";
  }
  // Two shards: the first tensor in one file, the others in another.
  void shard(const std::function<void(json& index)>& spoil) {
    fs::remove(directory() / "model.safetensors");
    json map = json::object();
    const NamedTensor first = tensors_.front();
    for (const NamedTensor& t : tensors_) map[t.name] = "b.safetensors";
    map[first.name] = "a.safetensors";
    StagedSafetensors(directory() / "a.safetensors", std::vector{first}).commit();
    tensors_.erase(tensors_.begin());
    rewrite("b.safetensors");
    json index{{"metadata", json::object()}, {"weight_map", map}};
    spoil(index);
    write_bytes(directory() / "model.safetensors.index.json", index.dump());
  }

  ScratchFolder scratch_;
  OwnParameters written_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(SpoiledModel, TensorMissing) {
  tensors_.erase(std::find_if(tensors_.begin(), tensors_.end(),
                              [](const NamedTensor& t) { return t.name == "model.norm.weight"; }));
  rewrite();
  refused({"model.safetensors", "missing", "model.norm.weight"});
}

TEST_F(SpoiledModel, ManyTensorsMissingAreListed) {
  tensors_.erase(tensors_.begin(), tensors_.begin() + 10);
  rewrite();
  refused({"missing", "and 5 more"});
}

TEST_F(SpoiledModel, TensorUnexpected) {
  tensors_.push_back(tensors_.back());
  tensors_.back().name = "lm_head.weight";
  rewrite();
  refused({"model.safetensors", "lm_head.weight"});
}

TEST_F(SpoiledModel, WrongShape) {
  NamedTensor& norm = tensor("model.embed_tokens.weight");
  norm.shape = {3, 5};
  rewrite();
  refused({"model.safetensors", "model.embed_tokens.weight", "F32[3, 5]", "F32[5, 3]"});
}

TEST_F(SpoiledModel, WrongDtype) {
  std::vector<int32_t> integers(3);
  tensor("model.norm.weight").data = Tensor::of(integers.data(), {3});
  rewrite();
  refused({"model.safetensors", "model.norm.weight", "I32"});
}

// A header that says another dtype of as many bytes.
TEST_F(SpoiledModel, DtypesThatNobodyComputesWithAreRefusedByName) {
  struct Stored {
    std::string dtype;
    std::vector<int64_t> shape;
  };
  const fs::path path = directory() / "model.safetensors";
  const std::string whole = read_file(path);
  const std::string name = "\"model.layers.1.mlp.experts.down_proj\"";  // F32[2, 3, 1]
  const size_t at = whole.find(name);
  ASSERT_NE(at, std::string::npos);
  const std::string good = R"("dtype":"F32","shape":[2,3,1])";
  const size_t says = whole.find(good, at);
  ASSERT_NE(says, std::string::npos);
  for (const std::string dtype : {"F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"}) {
    const std::string bad = R"("dtype":")" + dtype + R"(","shape":[24])";
    std::string spoiled = whole;
    uint64_t length = 0;
    std::memcpy(&length, whole.data(), sizeof length);
    spoiled.replace(says, good.size(), bad);
    length = length + bad.size() - good.size();
    std::memcpy(spoiled.data(), &length, sizeof length);
    write_bytes(path, spoiled);
    refused({"model.safetensors", "experts.down_proj", dtype + "[24]"});
    const std::string fitting = R"("dtype":")" + dtype + R"(","shape":[2,3,1])";
    // The right shape takes fewer bytes: then the file is refused as such.
    spoiled.replace(says, bad.size(), fitting);
    length = length + fitting.size() - bad.size();
    std::memcpy(spoiled.data(), &length, sizeof length);
    write_bytes(path, spoiled);
    refused({"model.safetensors", "experts.down_proj", dtype});
  }
  std::vector<int64_t> wide(6);
  for (NamedTensor& own : tensors_) {
    if (own.name == "model.layers.1.mlp.experts.down_proj") own.data = Tensor::of(wide.data(), {6});
  }
  rewrite();
  refused({"experts.down_proj", "stored as I64", "F32 or BF16"});
}

TEST_F(SpoiledModel, NamesThatWouldLeadElsewhereAreNoTensorsOfTheModel) {
  for (const std::string& name :
       {std::string("../../etc/passwd"), std::string("/etc/passwd"), std::string("a\0b", 3),
        std::string("model.norm.weight\0", 18), std::string("a\nb"), std::string()}) {
    tensors_.push_back(tensors_.back());
    tensors_.back().name = name;
    rewrite();
    const std::string shown = name.substr(0, name.find_first_of(std::string("\0\n", 2)));
    refused({"model.safetensors", "1 tensor that config.json does not call for", shown});
    tensors_.pop_back();
  }
}

TEST_F(SpoiledModel, AWeightThatIsNoNumber) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = {1, bad, 1};
    tensor("model.norm.weight").data = Tensor::of(values.data(), {3});
    rewrite();
    OwnParameters target;
    expect_error(ExitCode::kData, {"model.safetensors", "model.norm.weight", "NaN"},
                 [&] { load_weights(directory(), *target); });
  }
}

TEST_F(SpoiledModel, EveryCutIsRefused) {
  const std::string whole = read_file(directory() / "model.safetensors");
  for (size_t size = 0; size < whole.size(); size += size < 16 ? 1 : 97) {
    write_bytes(directory() / "model.safetensors", whole.substr(0, size));
    refused({"model.safetensors"});
  }
}

TEST_F(SpoiledModel, NoWeightsAtAll) {
  fs::remove(directory() / "model.safetensors");
  refused({"model.safetensors", "not a model directory"});
}

TEST_F(SpoiledModel, ShardsThatFitAreRead) {
  shard([](json&) {});
  OwnParameters target;
  load_weights(directory(), *target);
  EXPECT_EQ(target.all(), written_.all());
}

TEST_F(SpoiledModel, IndexNamesAMissingFile) {
  shard([](json&) {});
  fs::remove(directory() / "b.safetensors");
  refused({"model.safetensors.index.json", "b.safetensors", "missing"});
}

TEST_F(SpoiledModel, IndexPlacesATensorWrongly) {
  shard([](json& index) { index["weight_map"]["model.norm.weight"] = "a.safetensors"; });
  refused({"index.json", "model.norm.weight", "a.safetensors"});
}

TEST_F(SpoiledModel, IndexOmitsATensor) {
  shard([](json& index) { index["weight_map"].erase("model.norm.weight"); });
  refused({"b.safetensors", "model.norm.weight", "index"});
}

TEST_F(SpoiledModel, IndexNamesATensorThatIsNowhere) {
  shard([](json& index) { index["weight_map"]["ghost"] = "a.safetensors"; });
  refused({"index.json", "ghost", "a.safetensors"});
}

TEST_F(SpoiledModel, TensorDoubledAcrossShards) {
  shard([&](json&) { StagedSafetensors(directory() / "a.safetensors", tensors_).commit(); });
  refused({"b.safetensors", "a.safetensors", "also in"});
}

TEST_F(SpoiledModel, IndexThatLeavesItsFolder) {
  shard([](json& index) { index["weight_map"]["model.norm.weight"] = "../x.safetensors"; });
  refused({"index.json", "model.norm.weight", "no file name"});
}

TEST_F(SpoiledModel, IndexWithPathsOfAnyKind) {
  for (const char* path : {"/etc/passwd", "sub/x.safetensors", "..", ".", "", "..\\x"}) {
    json index{{"weight_map", {{"model.norm.weight", path}}}};
    fs::remove(directory() / "model.safetensors");
    write_bytes(directory() / "model.safetensors.index.json", index.dump());
    refused({"index.json", "model.norm.weight", "no file name"});
  }
}

TEST_F(SpoiledModel, IndexThatMapsATensorTwice) {
  shard([](json&) {});
  const fs::path index = directory() / "model.safetensors.index.json";
  std::string text = read_file(index);
  const std::string map = "\"weight_map\":{";
  const size_t at = text.find(map);
  ASSERT_NE(at, std::string::npos);
  text.insert(at + map.size(), "\"model.norm.weight\":\"b.safetensors\",");
  write_bytes(index, text);
  refused({"index.json", "model.norm.weight", "occurs twice"});
}

TEST_F(SpoiledModel, IndexWithoutAMap) {
  shard([](json& index) { index.erase("weight_map"); });
  refused({"index.json", "weight_map", "missing"});
}

TEST_F(SpoiledModel, OpenModelSaysWhatIsNoModel) {
  expect_error(ExitCode::kData, {"absent"}, [&] { open_model(scratch_ / "absent"); });
  write_bytes(scratch_ / "file", "");
  expect_error(ExitCode::kData, {"file", "not a directory"},
               [&] { open_model(scratch_ / "file"); });
  fs::create_directory(scratch_ / "empty");
  expect_error(ExitCode::kData, {"empty", "config.json"}, [&] { open_model(scratch_ / "empty"); });
  const OpenedModel opened = open_model(directory());
  EXPECT_FALSE(opened.checkpoint);
  OwnParameters target;
  opened.load(*target);
  EXPECT_EQ(target.all(), written_.all());
}

}  // namespace
}  // namespace athanor::test
