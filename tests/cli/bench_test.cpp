// athanor bench: what it prints adds up, and what it refuses. Times are never asserted.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "support/program.h"

namespace athanor::test {
namespace {

using nlohmann::json;

const std::string kTiny = std::string(ATHANOR_SOURCE_DIR) + "/configs/tiny.toml";

json run_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Outcome outcome = athanor(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? json::parse(outcome.out) : json::object();
}

/// Every key an op has, and that the ops and what lies outside them make up the whole.
void expect_table(const json& object, double seconds) {
  double sum = object.at("outside_seconds").get<double>();
  EXPECT_FALSE(object.at("ops").empty());
  for (const json& op : object.at("ops")) {
    for (const char* key : {"calls", "seconds", "share_of_time", "flops", "bytes", "bound_seconds",
                            "share_of_bound"}) {
      EXPECT_TRUE(op.at(key).is_number()) << key;
      EXPECT_GE(op.at(key).get<double>(), 0) << key;
    }
    EXPECT_TRUE(std::set<std::string>({"bf16", "fp32", "memory"}).count(op.at("bound"))) << op;
    EXPECT_FALSE(op.at("part").get<std::string>().empty()) << op;
    EXPECT_FALSE(op.at("op").get<std::string>().empty());
    sum += op.at("seconds").get<double>();
  }
  EXPECT_NEAR(sum, seconds, 1e-9 + 1e-6 * seconds);
}

std::set<std::string> parts_of(const json& object) {
  std::set<std::string> parts;
  for (const json& op : object.at("ops")) parts.insert(op.at("part").get<std::string>());
  return parts;
}

double flops_of(const json& object, const std::string& op) {
  double sum = 0;
  for (const json& entry : object.at("ops")) {
    if (entry.at("op") == op) sum += entry.at("flops").get<double>();
  }
  return sum;
}

TEST(BenchStep, PrintsOneStepOpByOp) {
  const json step = run_json({"bench", "step", kTiny, "--steps", "2"});
  const double seconds = step.at("step_seconds").get<double>();
  EXPECT_EQ(step.at("tokens"), 16 * 64);
  EXPECT_NEAR(step.at("tokens_per_second").get<double>() * seconds, 16 * 64, 1e-6);
  EXPECT_GT(step.at("ceiling_share").get<double>(), 0);
  for (const char* rate : {"bf16_flops", "fp32_flops", "read_bytes_per_second"}) {
    EXPECT_GT(step.at("ceilings").at(rate).get<double>(), 0) << rate;
  }
  EXPECT_EQ(step.at("optimizer"), "muon") << "the config's";
  EXPECT_EQ(step.at("routing"), "natural");
  expect_table(step, seconds);
  const std::set<std::string> parts = parts_of(step);
  for (const char* part :
       {"data", "packing", "embedding", "attention", "attention backward", "router", "experts",
        "experts backward", "residual", "head", "gradients", "optimizer"}) {
    EXPECT_TRUE(parts.count(part)) << part;
  }
  EXPECT_GT(flops_of(step, "muon_side_by_side"), 0);
}

// 2 layers, width 64, 4 experts of inner width 64, 1024 tokens: gate and up, then down, forward; the
// same as input gradients; as weight gradients once more.
TEST(BenchStep, BalancedRoutingGivesEveryTokenAnExpert) {
  const json step = run_json(
      {"bench", "step", kTiny, "--steps", "1", "--routing", "balanced", "--optimizer", "none"});
  const double products = 2.0 * 2 * 1024 * (128 * 64 + 64 * 64);
  EXPECT_EQ(flops_of(step, "grouped_linear"), 2 * products);
  EXPECT_EQ(flops_of(step, "grouped_accumulate_outer"), products);
  EXPECT_EQ(step.at("routing"), "balanced");
  EXPECT_EQ(step.at("optimizer"), "none");
  expect_table(step, step.at("step_seconds").get<double>());
  for (const char* part : {"optimizer", "packing"})
    EXPECT_FALSE(parts_of(step).count(part)) << part;
}

TEST(BenchStep, TheOptimizerOfTheCommandLineWins) {
  const json step = run_json({"bench", "step", kTiny, "--steps", "1", "--optimizer", "adamw"});
  EXPECT_EQ(step.at("optimizer"), "adamw");
  EXPECT_EQ(flops_of(step, "muon_side_by_side"), 0);
}

TEST(BenchStep, PrintsATableForAPerson) {
  const Outcome outcome = athanor({"bench", "step", kTiny, "--steps", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"tokens/s", "matrix ceiling", "outside ops", "GFLOP/s", "vocabulary_loss"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
}

TEST(BenchStep, RefusesWhatItCannotMeasure) {
  expect_refusal(athanor({"bench", "step", kTiny, "--steps", "0"}), 2, "--steps: 0");
  expect_refusal(athanor({"bench", "step", kTiny, "--optimizer", "sgd"}), 2, "sgd");
  expect_refusal(athanor({"bench", "step", kTiny, "--routing", "even"}), 2, "even");
  expect_refusal(athanor({"bench", "step", "absent.toml"}), 2, "absent.toml");
  expect_refusal(athanor({"bench", "step", kTiny, "--set", "model.hiden=8"}), 2, "model.hidden");
}

TEST(BenchMemory, MeasuresEveryAccess) {
  const json memory = run_json({"bench", "memory", "--seconds", "0.01"});
  EXPECT_GE(memory.at("bytes").get<int64_t>(), int64_t{32} << 20);
  for (const char* access : {"read", "write", "write_nontemporal", "copy", "copy_nontemporal"}) {
    for (const char* team : {"one_thread", "all_threads"}) {
      EXPECT_GT(memory.at(access).at(std::string(team) + "_bytes_per_second").get<double>(), 0)
          << access << " " << team;
    }
  }
  expect_refusal(athanor({"bench", "memory", "--seconds", "0"}), 2, "seconds");
}

TEST(BenchDecode, MeasuresPromptsAndTokens) {
  const std::string model = std::string(ATHANOR_SOURCE_DIR) + "/tests/data/golden/tiny";
  for (const std::string& subject : {kTiny, model}) {
    const json decode = run_json({"bench", "decode", subject, "--rounds", "1", "--tokens", "3"});
    EXPECT_EQ(decode.at("random_weights"), subject == kTiny);
    EXPECT_GT(decode.at("active_weight_bytes").get<double>(), 0);
    EXPECT_GT(decode.at("share_of_bound").get<double>(), 0);
    ASSERT_EQ(decode.at("prefill").size(), 2u);
    ASSERT_EQ(decode.at("decode").size(), 2u);
    EXPECT_EQ(decode.at("prefill")[0].at("tokens"), 512);
    EXPECT_EQ(decode.at("prefill")[1].at("tokens"), 2048);
    EXPECT_EQ(decode.at("decode")[0].at("batch"), 1);
    EXPECT_EQ(decode.at("decode")[1].at("batch"), 8);
    EXPECT_EQ(decode.at("tokens_per_second"), decode.at("decode")[0].at("tokens_per_second"));
    for (const char* kind : {"prefill", "decode"}) {
      for (const json& figures : decode.at(kind)) {
        expect_table(figures, figures.at("seconds").get<double>());
      }
    }
  }
}

TEST(BenchDecode, RefusesWhatItCannotMeasure) {
  expect_refusal(athanor({"bench", "decode", "absent"}), 3, "absent");
  expect_refusal(athanor({"bench", "decode", "absent.toml"}), 2, "absent.toml");
  expect_refusal(athanor({"bench", "decode", kTiny, "--rounds", "0"}), 2, "--rounds: 0");
  expect_refusal(athanor({"bench", "decode", kTiny, "--tokens", "0"}), 2, "--tokens: 0");
  const std::string model = std::string(ATHANOR_SOURCE_DIR) + "/tests/data/golden/tiny";
  expect_refusal(athanor({"bench", "decode", model, "--set", "model.hidden=8"}), 2, "--set");
}

TEST(BenchGemm, MeasuresPeersWhereTheyWereBuilt) {
  const bool built = fs::exists(fs::path(ATHANOR_BINARY).parent_path() / "athanor-bench-peers");
  if (!built) {
    expect_refusal(athanor({"bench", "gemm", "--peers"}), 2, "libdnnl-dev");
    return;
  }
  const json gemm = run_json({"bench", "gemm", "--peers", "--size", "96", "--seconds", "0.01"});
  for (const char* dtype : {"bf16", "fp32"}) {
    const json& peers = gemm.at(dtype).at("peers");
    ASSERT_EQ(peers.size(), 1u);
    EXPECT_TRUE(peers.begin().key().starts_with("oneDNN ")) << peers;
    EXPECT_GT(peers.begin().value().at("product_flops").get<double>(), 0);
    EXPECT_GT(peers.begin().value().at("ratio").get<double>(), 0);
  }
}

TEST(BenchGemm, MeasuresTheProductsOfConfigs) {
  const bool built = fs::exists(fs::path(ATHANOR_BINARY).parent_path() / "athanor-bench-peers");
  std::vector<std::string> arguments{"bench", "gemm", kTiny, kTiny, "--seconds", "0.001"};
  if (built) arguments.emplace_back("--peers");
  const json gemm = run_json(arguments);
  const json& products = gemm.at("products");
  ASSERT_EQ(products.size(), 15U) << "five layers, three products each, a shape once";
  double logarithms = 0, least = INFINITY;
  for (const json& product : products) {
    for (const char* key : {"t", "n", "k", "flops", "share_of_ceiling"}) {
      EXPECT_GT(product.at(key).get<double>(), 0) << key;
    }
    EXPECT_EQ(product.at("config"), "tiny");
    if (!built) continue;
    EXPECT_GT(product.at("peer_flops").get<double>(), 0);
    logarithms += std::log(product.at("ratio").get<double>());
    least = std::min(least, product.at("ratio").get<double>());
  }
  if (!built) {
    EXPECT_FALSE(gemm.contains("peers"));
    return;
  }
  const json& peer = gemm.at("peers").begin().value();
  EXPECT_NEAR(std::log(peer.at("geometric_mean").get<double>()), logarithms / 15, 1e-6);
  EXPECT_EQ(peer.at("least").get<double>(), least);
}

TEST(BenchGemm, RefusesConfigsThatItCannotMeasure) {
  expect_refusal(athanor({"bench", "gemm", "absent.toml"}), 2, "absent.toml");
  expect_refusal(athanor({"bench", "gemm", kTiny, "--size", "96"}), 2, "--size");
}

TEST(BenchGemm, HasNoPeersUnlessAsked) {
  const json gemm = run_json({"bench", "gemm", "--size", "96", "--seconds", "0.01"});
  EXPECT_FALSE(gemm.at("bf16").contains("peers"));
}

}  // namespace
}  // namespace athanor::test
