// athanor eval and athanor bench, through the program.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "infer/tiny_model.h"
#include "support/program.h"

namespace athanor::test {
namespace {

using nlohmann::json;

TEST(EvalVerb, PrintsOneObjectOrTwoLines) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config(), {.bos = true});
  const std::string data = folder.write("d.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"é\"}\n");
  const Outcome outcome =
      athanor({"eval", "perplexity", model, "--data", data, "--json", "--precision", "fp32"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result.at("documents"), 2);
  EXPECT_EQ(result.at("bytes"), 5);
  EXPECT_EQ(result.at("tokens"), 7);
  EXPECT_EQ(result.at("bos"), true);
  const double nats = result.at("nats");
  EXPECT_NEAR(result.at("bits_per_byte").get<double>(), nats / 0.6931471805599453 / 5, 1e-9);
  EXPECT_NEAR(result.at("perplexity").get<double>(), std::exp(nats / 7), 1e-6 * std::exp(nats / 7));
  const Outcome text = athanor({"eval", "perplexity", model, "--data", data});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_EQ(lines_of(text.out), 2);
  EXPECT_NE(text.out.find("bits per byte"), std::string::npos);
}

TEST(EvalVerb, RefusesBadData) {
  const ScratchFolder folder;
  const std::string model = write_model(folder / "model", text_config());
  const auto eval = [&](const std::string& data, std::vector<std::string> options = {}) {
    options.insert(options.begin(), {"eval", "perplexity", model, "--data", data});
    return athanor(options);
  };
  expect_refusal(eval(folder / "absent.txt"), 3, "absent.txt");
  expect_refusal(eval(folder.write("bad.txt", "\xc3(")), 3, "bad.txt:1");
  expect_refusal(eval(folder.write("bad.jsonl", "{\"text\": \"a\"}\n{}\n")), 3, "bad.jsonl:2");
  expect_refusal(eval(folder.write("zero.txt", "")), 3, "zero.txt: there is no text");
  expect_refusal(eval(folder.write("twice.jsonl", "{\"text\": \"a\", \"text\": \"b\"}")), 3,
                 "twice.jsonl:1: ");
  expect_refusal(eval(folder.write("d.txt", "a"), {"--context", "0"}), 2, "--context");
  expect_refusal(eval(folder / "d.txt", {"--context", "100"}), 2, "64");
}

TEST(BenchVerb, GemmMeasuresBothDtypes) {
  const Outcome outcome = athanor({"bench", "gemm", "--size", "96", "--seconds", "0.1", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json result = json::parse(outcome.out);
  EXPECT_EQ(result.at("size"), 96);
  EXPECT_GE(result.at("rounds").get<int>(), 1);
  EXPECT_GE(result.at("threads").get<int>(), 1);
  for (const char* dtype : {"bf16", "fp32"}) {
    const json& rate = result.at(dtype);
    for (const char* key : {"register_flops", "cache_flops", "product_flops"}) {
      EXPECT_GT(rate.at(key).get<double>(), 1e6) << dtype << " " << key;
    }
    EXPECT_NEAR(rate.at("share_of_ceiling").get<double>(),
                rate.at("product_flops").get<double>() / rate.at("register_flops").get<double>(),
                1e-9);
  }
  const Outcome table = athanor({"bench", "gemm", "--size", "32", "--seconds", "0.1"});
  EXPECT_EQ(lines_of(table.out), 4) << table.out;
}

}  // namespace
}  // namespace athanor::test
