#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>

#include "base/checksum.h"
#include "checkpoint/model_transfer.h"
#include "checkpoint/open_model.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tiny_parameters.h"
#include "support/scratch.h"

namespace athanor::test {
namespace {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

CheckpointInfo info_at(int64_t step) {
  return {step, "[model]\nhidden = 3\n", R"({"sample":17})", R"({"seed":3})",
          R"({"tokens":12345678901,"loss":2.5})"};
}

const std::vector<SideFile> kSides{{"tokenizer.json", R"({"model":{}})"},
                                   {"tokenizer_config.json", "{}\n"}};

// Saves weights, biases and one optimizer tensor.
fs::path save(const fs::path& folder, int64_t step, OwnParameters& parameters,
              const std::vector<float>& momentum) {
  std::vector<TensorSlice> slices = slices_of(*parameters);
  slices.push_back(
      {"optimizer.momentum.model.norm.weight", {3}, 0, Tensor::of(momentum.data(), {3})});
  return save_checkpoint(folder, info_at(step), parameters->config(), slices, kSides);
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    parameters_.count_up();
    fs::create_directory(folder());
  }
  fs::path folder() const { return scratch_ / "checkpoints"; }
  fs::path save_step(int64_t step) { return save(folder(), step, parameters_, momentum_); }

  ScratchFolder scratch_;
  OwnParameters parameters_;
  std::vector<float> momentum_{0.1f, -0.0f, 1e-40f};
};

TEST_F(CheckpointTest, GivesBackEveryBit) {
  const fs::path path = save_step(12);
  EXPECT_EQ(path.filename(), "step-00000012");
  EXPECT_EQ(names_in(folder()), std::set<std::string>{"step-00000012"});
  EXPECT_EQ(names_in(path),
            (std::set<std::string>{"config.json", "manifest.json", "rank-00000.safetensors",
                                   "tokenizer.json", "tokenizer_config.json"}));
  const Checkpoint opened = Checkpoint::open(path);
  opened.verify();
  EXPECT_EQ(opened.step(), 12);
  EXPECT_EQ(opened.manifest().config, info_at(12).config);
  EXPECT_EQ(opened.manifest().data_cursor, info_at(12).data_cursor);
  EXPECT_EQ(opened.manifest().random_state, info_at(12).random_state);
  EXPECT_EQ(nlohmann::json::parse(opened.manifest().state),
            nlohmann::json::parse(info_at(12).state));
  EXPECT_EQ(opened.config().hidden, 3);
  ASSERT_EQ(opened.side_files().size(), 2u);
  EXPECT_EQ(opened.side_files()[0].content, kSides[0].content);

  OwnParameters read;
  const uint64_t before = read->version();
  opened.load(*read);
  EXPECT_EQ(read.all(), parameters_.all());
  EXPECT_GT(read->version(), before)
      << "a model would go on with the packed copies of other weights";
  std::vector<float> momentum(3);
  opened.read("optimizer.momentum.model.norm.weight", 0, Tensor::of(momentum.data(), {3}));
  EXPECT_TRUE(std::ranges::equal(momentum, momentum_, [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  }));
  std::vector<float> part(2);
  opened.read("model.norm.weight", 1, Tensor::of(part.data(), {2}));
  const Tensor& norm = parameters_->find("model.norm.weight").value;
  EXPECT_EQ(part, (std::vector<float>{norm.as<float>()[1], norm.as<float>()[2]}));
}

TEST_F(CheckpointTest, SavesTheSameBytesTwice) {
  const fs::path first = save(scratch_ / "a", 3, parameters_, momentum_);
  const fs::path second = save(scratch_ / "b", 3, parameters_, momentum_);
  for (const std::string& name : names_in(first)) {
    EXPECT_TRUE(read_file(first / name) == read_file(second / name)) << name;
  }
}

TEST_F(CheckpointTest, AnotherWorldsSlicesAreReadByGlobalIndex) {
  CheckpointWriter writer(folder(), 4);
  std::vector<RankRecord> records;
  const int64_t cut = 7;
  const Tensor& embedding = parameters_->find("model.embed_tokens.weight").value;
  const Tensor flat = embedding.reshaped({embedding.numel()});
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<TensorSlice> slices = slices_of(*parameters_);
    if (rank == 1) slices.clear();
    const int64_t begin = rank == 0 ? 0 : cut, end = rank == 0 ? cut : embedding.numel();
    TensorSlice slice{"model.embed_tokens.weight", {5, 3}, begin, flat.columns(begin, end - begin)};
    if (rank == 0) {
      slices[0] = slice;
    } else {
      slices.push_back(slice);
    }
    records.push_back(write_rank(writer.temporary(), rank, slices));
  }
  const fs::path path = writer.commit(info_at(4), parameters_->config(), records, {});
  const Checkpoint opened = Checkpoint::open(path);
  opened.verify();
  EXPECT_EQ(opened.manifest().ranks, 2);
  EXPECT_EQ(opened.manifest().find("model.embed_tokens.weight")->slices.size(), 2u);
  OwnParameters read;
  opened.load(*read);
  EXPECT_EQ(read.all(), parameters_.all());
  std::vector<float> across(4);
  opened.read("model.embed_tokens.weight", 5, Tensor::of(across.data(), {4}));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(across[i], flat.as<float>()[5 + i]);
}

TEST_F(CheckpointTest, SlicesThatLeaveAGapAreABug) {
  CheckpointWriter writer(folder(), 4);
  std::vector<TensorSlice> slices = slices_of(*parameters_);
  const Tensor& embedding = parameters_->find("model.embed_tokens.weight").value;
  slices[0] = {"model.embed_tokens.weight", {5, 3}, 0, embedding.reshaped({15}).columns(0, 7)};
  const std::vector<RankRecord> records{write_rank(writer.temporary(), 0, slices)};
  expect_error(ExitCode::kBug, {"model.embed_tokens.weight"},
               [&] { writer.commit(info_at(4), parameters_->config(), records, {}); });
}

TEST_F(CheckpointTest, AnAbandonedSaveLeavesNothing) {
  {
    CheckpointWriter writer(folder(), 9);
    write_rank(writer.temporary(), 0, slices_of(*parameters_));
    EXPECT_EQ(names_in(folder()), std::set<std::string>{"step-00000009.tmp"});
    EXPECT_FALSE(latest_valid(folder()).checkpoint);
  }
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(CheckpointTest, WhatACrashLeftIsIgnoredAndReplaced) {
  save_step(1);
  fs::create_directory(folder() / "step-00000002.tmp");
  write_bytes(folder() / "step-00000002.tmp" / "rank-00000.safetensors", "half");
  EXPECT_EQ(latest_valid(folder()).checkpoint->step(), 1);
  EXPECT_TRUE(latest_valid(folder()).damaged.empty());
  save_step(2);
  EXPECT_EQ(latest_valid(folder()).checkpoint->step(), 2);
  fs::create_directory(folder() / "step-00000003.tmp");
  prune(folder(), 5);
  EXPECT_EQ(names_in(folder()), (std::set<std::string>{"step-00000001", "step-00000002"}));
}

TEST_F(CheckpointTest, ASecondSaveOfAStepReplacesTheFirst) {
  save_step(5);
  parameters_->flat().as<float>()[0] = 99;
  save_step(5);
  OwnParameters read;
  latest_valid(folder()).checkpoint->load(*read);
  EXPECT_EQ(read.all(), parameters_.all());
  EXPECT_EQ(names_in(folder()), std::set<std::string>{"step-00000005"});
}

TEST_F(CheckpointTest, PruneKeepsTheNewestCompleteOnes) {
  for (const int64_t step : {1, 2, 3, 4, 5}) save_step(step);
  fs::remove(folder() / "step-00000005" / "rank-00000.safetensors");
  EXPECT_EQ(prune(folder(), 2), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(names_in(folder()),
            (std::set<std::string>{"step-00000003", "step-00000004", "step-00000005"}));
  EXPECT_EQ(latest_valid(folder()).checkpoint->step(), 4);
}

TEST_F(CheckpointTest, PruneGoesOnWhereACrashLeftIt) {
  for (const int64_t step : {1, 2}) save_step(step);
  const fs::path left = folder() / "step-00000001.removed.tmp";
  fs::create_directory(left);
  write_bytes(left / "rank-00000.safetensors", "half");
  EXPECT_EQ(prune(folder(), 1), std::vector<int64_t>{1});
  EXPECT_EQ(names_in(folder()), std::set<std::string>{"step-00000002"});
}

TEST_F(CheckpointTest, WhatIsAbandonedIsNeverTheNewest) {
  for (const int64_t step : {1, 2, 3}) save_step(step);
  EXPECT_EQ(abandon(folder(), 1), 2);
  save_step(3);
  EXPECT_EQ(abandon(folder(), 1), 1);
  EXPECT_EQ(names_in(folder()),
            (std::set<std::string>{"step-00000001", "abandoned-step-00000002",
                                   "abandoned-step-00000003", "abandoned-step-00000003-2"}));
  EXPECT_EQ(latest_valid(folder()).checkpoint->step(), 1);
  EXPECT_EQ(abandon(folder() / "none", 0), 0);
}

TEST_F(CheckpointTest, TheNewestThatVerifiesIsUsed) {
  for (const int64_t step : {1, 2, 3}) save_step(step);
  std::string bytes = read_file(folder() / "step-00000003" / "rank-00000.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_bytes(folder() / "step-00000003" / "rank-00000.safetensors", bytes);
  const LatestCheckpoint latest = latest_valid(folder());
  EXPECT_EQ(latest.checkpoint->step(), 2);
  ASSERT_EQ(latest.damaged.size(), 1u);
  EXPECT_EQ(latest.damaged[0].path.filename(), "step-00000003");
  EXPECT_NE(latest.damaged[0].reason.find("rank-00000.safetensors"), std::string::npos);

  const OpenedModel run = open_model(scratch_.path());  // a run directory
  EXPECT_TRUE(run.checkpoint);
  EXPECT_EQ(run.directory.filename(), "step-00000002");
  ASSERT_EQ(run.warnings.size(), 1u);
  OwnParameters read;
  run.load(*read);
  EXPECT_EQ(read.all(), parameters_.all());
}

TEST_F(CheckpointTest, ACheckpointUnderAnotherStepsNameIsDamaged) {
  save_step(1);
  fs::rename(folder() / "step-00000001", folder() / "step-00000007");
  const LatestCheckpoint latest = latest_valid(folder());
  EXPECT_FALSE(latest.checkpoint);
  ASSERT_EQ(latest.damaged.size(), 1u);
  EXPECT_NE(latest.damaged[0].reason.find("step 1"), std::string::npos);
}

TEST_F(CheckpointTest, EveryFlippedByteIsRefusedByNameOfFileAndTensor) {
  const fs::path path = save_step(1);
  const Manifest manifest = Checkpoint::open(path).manifest();
  const SafetensorsFile rank(path / "rank-00000.safetensors");
  const std::vector<TensorEntry> entries(rank.entries().begin(), rank.entries().end());
  for (const std::string& name : names_in(path)) {
    const std::string whole = read_file(path / name);
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
      write_bytes(path / name, flipped);
      std::vector<std::string> words{name};
      if (name == "rank-00000.safetensors" && i >= rank.header_bytes()) {
        const auto hit = std::find_if(entries.begin(), entries.end(), [&](const TensorEntry& e) {
          return i >= e.begin && i < e.begin + e.bytes;
        });
        words.push_back(hit->name);
      }
      expect_error(ExitCode::kData, words, [&] { Checkpoint::open(path).verify(); });
      if (HasFailure()) FAIL() << "byte " << i << " of " << name;
    }
    write_bytes(path / name, whole);
  }
  Checkpoint::open(path).verify();
}

TEST_F(CheckpointTest, EveryCutFileIsRefusedByNameWhenOpened) {
  const fs::path path = save_step(1);
  for (const std::string& name : names_in(path)) {
    const std::string whole = read_file(path / name);
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 60) {
      write_bytes(path / name, whole.substr(0, size));
      expect_error(ExitCode::kData, {name}, [&] { Checkpoint::open(path); });
    }
    write_bytes(path / name, whole + "x");
    expect_error(ExitCode::kData, {name}, [&] { Checkpoint::open(path); });
    fs::remove(path / name);
    expect_error(ExitCode::kData, {name}, [&] { Checkpoint::open(path); });
    write_bytes(path / name, whole);
  }
  Checkpoint::open(path).verify();
}

TEST_F(CheckpointTest, ReadingATensorProvesItsBytes) {
  const fs::path path = save_step(1);
  std::string bytes = read_file(path / "rank-00000.safetensors");
  const TensorEntry entry =
      SafetensorsFile(path / "rank-00000.safetensors").at("model.norm.weight");
  bytes[entry.begin] = static_cast<char>(bytes[entry.begin] ^ 4);
  write_bytes(path / "rank-00000.safetensors", bytes);
  const Checkpoint opened = Checkpoint::open(path);
  std::vector<float> values(3);
  // In whole, and in a part that does not hold the damage: a slice is good or it is not.
  for (const int64_t begin : {0, 1}) {
    expect_error(ExitCode::kData, {"rank-00000.safetensors", "model.norm.weight"}, [&] {
      opened.read("model.norm.weight", begin, Tensor::of(values.data(), {3 - begin}));
    });
  }
  opened.read("model.input_hidden_states_scale", 0, Tensor::of(values.data(), {3}));
  OwnParameters target;
  expect_error(ExitCode::kData, {"model.norm.weight"}, [&] { opened.load(*target); });
}

TEST_F(CheckpointTest, TensorsThatDoNotFitAreRefused) {
  const fs::path path = save_step(1);
  const Checkpoint opened = Checkpoint::open(path);
  model::ModelConfig other = tiny_config();
  other.vocab = 6;
  OwnParameters wider(other);
  expect_error(ExitCode::kData, {"model.embed_tokens.weight", "shape"},
               [&] { opened.load(*wider); });
  other = tiny_config();
  other.layers = 1;
  other.layer_kinds.pop_back();
  OwnParameters shorter(other);
  expect_error(ExitCode::kData, {"does not call for", "model.layers.1"},
               [&] { opened.load(*shorter); });
  other.layers = 3;
  other.layer_kinds.assign(3, model::LayerKind::kFull);
  OwnParameters taller(other);
  expect_error(ExitCode::kData, {"missing", "model.layers.2"}, [&] { opened.load(*taller); });
  std::vector<int32_t> integers(3);
  expect_error(ExitCode::kData, {"model.norm.weight", "F32", "I32"},
               [&] { opened.read("model.norm.weight", 0, Tensor::of(integers.data(), {3})); });
}

TEST_F(CheckpointTest, ExportsAModelDirectoryWithItsTokenizer) {
  const fs::path path = save_step(1);
  export_opened(open_model(path), scratch_ / "model", {.dtype = DType::kF32});
  EXPECT_EQ(names_in(scratch_ / "model"),
            (std::set<std::string>{"config.json", "generation_config.json", "model.safetensors",
                                   "tokenizer.json", "tokenizer_config.json"}));
  OwnParameters read;
  open_model(scratch_ / "model").load(*read);
  EXPECT_EQ(read.all(), parameters_.all());
}

TEST_F(CheckpointTest, InspectTellsWhatItHolds) {
  const fs::path path = save_step(1);
  const auto object = nlohmann::json::parse(inspect_json(Checkpoint::open(path).manifest()));
  EXPECT_EQ(object.at("step"), 1);
  EXPECT_EQ(object.at("ranks"), 1);
  EXPECT_EQ(object.at("parameters"), parameters_->numel());
  EXPECT_EQ(object.at("state").at("tokens"), 12345678901);
  EXPECT_EQ(object.at("files").size(), 4u);
}

// A file larger than the limit fails as one on a full disk does.
TEST_F(CheckpointTest, ASaveThatFindsNoRoomLeavesThePreviousOne) {
  save_step(1);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  for (const rlim_t bytes : {100, 3000, 9000}) {
    const rlimit limit{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    expect_error(ExitCode::kResources, {"step-00000002"}, [&] { save_step(2); });
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(names_in(folder()), std::set<std::string>{"step-00000001"}) << bytes;
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(latest_valid(folder()).checkpoint->step(), 1);
  save_step(2);
  EXPECT_EQ(latest_valid(folder()).checkpoint->step(), 2);
}

TEST_F(CheckpointTest, AFullFileSystemLeavesThePreviousOne) {
  const fs::path small = scratch_ / "small";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "NOT RUN: a small file system cannot be mounted here (needs root)";
  }
  int64_t saved = 0;
  std::string message;
  for (int64_t step = 1; step <= 20 && message.empty(); ++step) {
    try {
      save(small, step, parameters_, momentum_);
      saved = step;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kResources);
      message = error.what();
    }
  }
  EXPECT_NE(message.find("free some space"), std::string::npos) << message;
  EXPECT_GE(saved, 1);
  const LatestCheckpoint latest = latest_valid(small);
  EXPECT_EQ(latest.checkpoint->step(), saved);
  EXPECT_TRUE(latest.damaged.empty());
  EXPECT_EQ(static_cast<int64_t>(names_in(small).size()), saved);
  prune(small, 1);
  save(small, saved + 1, parameters_, momentum_);
  EXPECT_EQ(latest_valid(small).checkpoint->step(), saved + 1);
  ::umount(small.c_str());
}

// Edits that renew the manifest's own checksum: its other rules must hold too.
class EditedManifest : public CheckpointTest {
 protected:
  using Edit = std::function<void(nlohmann::ordered_json&)>;
  void refused(const Edit& edit, const std::vector<std::string>& words) {
    const fs::path path = save_step(1);
    auto root = nlohmann::ordered_json::parse(read_file(path / "manifest.json"));
    root.erase("manifest_checksum");
    edit(root);
    std::string text = root.dump(2);
    text.erase(text.size() - 2);  // "\n}"
    text += ",\n  \"manifest_checksum\": \"";
    text += Checksum::of(text.data(), text.size()) + "\"\n}\n";
    write_bytes(path / "manifest.json", text);
    expect_error(ExitCode::kData, words, [&] { Checkpoint::open(path).verify(); });
  }
};

TEST_F(EditedManifest, IsRefused) {
  using json = nlohmann::ordered_json;
  const auto slice = [](json& root) -> json& { return root["tensors"][0]["slices"][0]; };
  refused([](json& r) { r["format"] = "other"; }, {"manifest.json", "format"});
  refused([](json& r) { r["version"] = 2; }, {"version 2"});
  refused([](json& r) { r.erase("step"); }, {"\"step\" is missing"});
  refused([](json& r) { r["step"] = -1; }, {"step"});
  refused([](json& r) { r["world"]["ranks"] = 0; }, {"ranks"});
  refused([](json& r) { r["world"]["ranks"] = 2; }, {"1 rank files", "2 ranks"});
  refused([](json& r) { r.erase("config"); }, {"config"});
  refused([](json& r) { r["files"] = 3; }, {"files"});
  refused([](json& r) { r["files"][0]["name"] = "../evil"; }, {"../evil"});
  refused([](json& r) { r["files"].push_back(r["files"][0]); }, {"listed twice"});
  refused([](json& r) { r["files"][0]["bytes"] = 7; }, {"rank-00000.safetensors", "7"});
  refused([](json& r) { r["files"][0]["kind"] = "odd"; }, {"odd"});
  refused([](json& r) { r["files"][1]["checksum"] = "00"; }, {"checksum"});
  refused([](json& r) { r["files"].erase(r["files"].begin() + 1); }, {"lists no config.json"});
  refused([](json& r) { r["tensors"].erase(r["tensors"].begin()); }, {"rank-00000.safetensors"});
  refused([](json& r) { std::swap(r["tensors"][0], r["tensors"][1]); }, {"out of order"});
  refused([](json& r) { r["tensors"][0]["dtype"] = "F16"; }, {"F16"});
  refused([](json& r) { r["tensors"][0]["shape"] = {1 << 30, 1 << 30, 1 << 30}; }, {"shape"});
  refused([&](json& r) { slice(r)["offset"] = 1; }, {"exactly once"});
  refused([&](json& r) { slice(r)["length"] = 1; }, {"exactly once"});
  refused(
      [&](json& r) {
        json second = slice(r);
        const int64_t length = second["length"].get<int64_t>();
        slice(r)["length"] = 1;
        second["offset"] = 1;
        second["length"] = length - 1;
        r["tensors"][0]["slices"].push_back(second);
      },
      {"two slices in rank-00000.safetensors"});
  refused([&](json& r) { slice(r)["file"] = "config.json"; }, {"config.json", "rank file"});
  refused([&](json& r) { slice(r)["checksum"] = std::string(32, '0'); },
          {"rank-00000.safetensors", "checksum"});
}

}  // namespace
}  // namespace athanor::test
