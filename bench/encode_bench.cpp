// Encoding on one core, in MB of text per second: encode_bench TOKENIZER TEXTS.json, a JSON array of texts. The first pass
// with words that are not known yet, and the best of three.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "data/tokenizer.h"

int main(int argc, char** argv) {
  using namespace athanor;  // NOLINT(google-build-using-namespace)
  if (argc != 3) {
    fmt::print(stderr, "usage: encode_bench TOKENIZER TEXTS.json\n");
    return 2;
  }
  try {
    // The time of the process: others may share the core.
    const auto now = [] { return std::clock(); };
    const auto seconds = [](std::clock_t since) {
      return static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
    };
    const std::clock_t start = now();
    const auto tokenizer = data::load_tokenizer(argv[1]);
    const double load = seconds(start);
    const auto texts = nlohmann::json::parse(read_file(argv[2])).get<std::vector<std::string>>();
    double megabytes = 0;
    for (const std::string& text : texts) megabytes += static_cast<double>(text.size()) / 1e6;
    double first = 0;
    double best = 1e9;
    size_t tokens = 0;
    for (int pass = 0; pass < 3; ++pass) {
      const std::clock_t begin = now();
      tokens = 0;
      for (const std::string& text : texts) tokens += tokenizer->encode(text).size();
      const double took = seconds(begin);
      if (pass == 0) first = took;
      best = std::min(best, took);
    }
    fmt::print("{{\"first_pass_mb_s\":{:.1f},\"mb_s\":{:.1f},\"tokens\":{},\"load_s\":{:.2f}}}\n",
               megabytes / first, megabytes / best, tokens, load);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
