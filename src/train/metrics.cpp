#include "train/metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

namespace athanor::train {

ExpertLoad expert_load(std::span<const int64_t> counts) {
  const auto real = counts.first(counts.size() - 1);
  const auto tokens = static_cast<double>(std::accumulate(real.begin(), real.end(), int64_t{0}));
  const auto all = tokens + static_cast<double>(counts.back());
  const auto experts = static_cast<double>(real.size());
  ExpertLoad load;
  load.dead = std::count(real.begin(), real.end(), 0);
  load.skip_share = all > 0 ? static_cast<double>(counts.back()) / all : 0;
  if (tokens == 0) return load;
  for (const int64_t count : real) {
    const double share = static_cast<double>(count) / tokens;
    if (count > 0) load.entropy -= share * std::log(share);
  }
  load.entropy = real.size() > 1 ? load.entropy / std::log(experts) : 1;
  load.max_over_mean =
      static_cast<double>(*std::max_element(real.begin(), real.end())) * experts / tokens;
  return load;
}

std::string to_json_line(const StepMetrics& m) {
  nlohmann::ordered_json line = {{"step", m.plan.step + 1},
                                 {"phase", m.phase},
                                 {"tokens", m.plan.tokens_before + m.plan.tokens()},
                                 {"loss", m.result.loss},
                                 {"learning_rate", m.plan.learning_rate},
                                 {"adamw_learning_rate", m.plan.adamw_learning_rate},
                                 {"grad_norm", m.result.gradient_norm},
                                 {"targets", m.result.targets},
                                 {"applied", m.result.applied},
                                 {"skipped_steps", m.skipped_steps},
                                 {"epochs", m.epochs},
                                 {"seconds", m.seconds},
                                 {"tokens_per_second", m.tokens_per_second},
                                 {"ceiling_share", m.ceiling_share},
                                 {"data_wait_seconds", m.data_wait_seconds},
                                 {"memory_bytes", m.memory_bytes}};
  auto& experts = line["experts"] = nlohmann::ordered_json::array();
  for (const ExpertLoad& load : m.experts) {
    experts.push_back({{"entropy", load.entropy},
                       {"max_over_mean", load.max_over_mean},
                       {"dead", load.dead},
                       {"skip_share", load.skip_share}});
  }
  if (m.validation) {
    line["validation"] = {{"loss", m.validation->loss},
                          {"bits_per_byte", m.validation->bits_per_byte},
                          {"tokens", m.validation->tokens},
                          {"bytes", m.validation->bytes}};
  }
  return line.dump();
}

std::vector<Scalar> to_scalars(const StepMetrics& m) {
  std::vector<Scalar> scalars = {
      {"train/loss", m.result.loss},
      {"train/grad_norm", m.result.gradient_norm},
      {"train/tokens", static_cast<double>(m.plan.tokens_before + m.plan.tokens())},
      {"train/skipped_steps", static_cast<double>(m.skipped_steps)},
      {"train/epochs", m.epochs},
      {"learning_rate/muon", m.plan.learning_rate},
      {"learning_rate/adamw", m.plan.adamw_learning_rate},
      {"speed/tokens_per_second", m.tokens_per_second},
      {"speed/ceiling_share", m.ceiling_share},
      {"speed/data_wait_seconds", m.data_wait_seconds},
      {"speed/memory_bytes", static_cast<double>(m.memory_bytes)}};
  for (size_t layer = 0; layer < m.experts.size(); ++layer) {
    const ExpertLoad& load = m.experts[layer];
    const std::string prefix = "experts/layer_" + std::to_string(layer);
    scalars.push_back({prefix + "_entropy", load.entropy});
    scalars.push_back({prefix + "_max_over_mean", load.max_over_mean});
    scalars.push_back({prefix + "_dead", static_cast<double>(load.dead)});
    scalars.push_back({prefix + "_skip_share", load.skip_share});
  }
  if (m.validation) {
    scalars.push_back({"validation/loss", m.validation->loss});
    scalars.push_back({"validation/bits_per_byte", m.validation->bits_per_byte});
  }
  return scalars;
}

int64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  long long size = 0;
  long long resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace athanor::train
