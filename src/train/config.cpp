#include "train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <numeric>
#include <optional>
#include <set>

#include "train/config_checks.h"
#include "train/config_fields.h"

namespace athanor::train {
namespace {

/// Tokens of a micro-batch that "auto" aims at.
constexpr int64_t kMicroBatchTokens = 4096;
/// Tokens of a pass are numbered in i32, and a memory plan lists a segment for each: as many as a sequence may have.
constexpr int64_t kMostTokens = int64_t{1} << 24;

/// The geometry's parts as the config file spells them.
constexpr model::GeometryKeys kKeys = {
    .layers = "model.layers",
    .hidden = "model.hidden",
    .query_heads = "model.query_heads",
    .key_heads = "model.key_value_heads",
    .head_size = "model.head_size",
    .experts = "model.experts",
    .expert_inner = "model.expert_inner",
    .router = "model.router",
    .vocab = "model.vocab",
    .partial_rotary = "model.partial_rotary",
    .rms_norm_eps = "model.rms_norm_eps",
    .layer_kinds = "model.layer_types",
    .sliding_window = "model.sliding_window",
    .theta = "phases.0.theta",
    .theta_sliding = "model.theta_sliding",
    .initializer_range = "model.initializer_range",
};

std::optional<int64_t> layer_number(const std::string& word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

std::vector<model::LayerKind> layer_kinds(const ModelSection& m) {
  using model::LayerKind;
  std::vector<LayerKind> kinds(static_cast<size_t>(m.layers), LayerKind::kFull);
  const auto kind = [](const std::string& word) {
    if (word == "full") return LayerKind::kFull;
    if (word == "sliding") return LayerKind::kSliding;
    throw usage_error("model.layer_types: '" + word +
                      "' is none of \"full\", \"sliding\", \"alternating\"");
  };
  if (m.layer_types.size() == 1) {
    if (m.layer_types[0] == "alternating") {
      for (size_t i = 0; i < kinds.size(); i += 2) kinds[i] = LayerKind::kSliding;
    } else {
      std::fill(kinds.begin(), kinds.end(), kind(m.layer_types[0]));
    }
    return kinds;
  }
  if (m.layer_types.size() != kinds.size()) {
    throw usage_error(
        fmt::format("model.layer_types: {} words for {} layers", m.layer_types.size(), m.layers));
  }
  std::transform(m.layer_types.begin(), m.layer_types.end(), kinds.begin(), kind);
  return kinds;
}

void check_batch(const Config& config) {
  const BatchSection& batch = config.batch;
  const auto groups = static_cast<uint64_t>(batch.reduction_groups);
  if (!std::has_single_bit(groups)) {
    throw usage_error(fmt::format("batch.reduction_groups: {} is no power of two", groups));
  }
  for (size_t i = 1; i < batch.ramp.size(); ++i) {
    if (batch.ramp[i].tokens <= batch.ramp[i - 1].tokens) {
      throw usage_error(fmt::format("batch.ramp.{}.tokens: must be more than the {} before it", i,
                                    batch.ramp[i - 1].tokens));
    }
  }
  for (const int64_t sequences : batch_sizes(config)) {
    if (sequences % batch.reduction_groups != 0) {
      throw usage_error(
          fmt::format("batch.sequences: {} sequences cannot be cut into {} reduction_groups: "
                      "make it a multiple",
                      sequences, batch.reduction_groups));
    }
    const int64_t group = sequences / batch.reduction_groups;
    if (batch.micro_batch != kAuto && group % batch.micro_batch != 0) {
      throw usage_error(
          fmt::format("batch.micro_batch: {} does not divide the {} sequences of a reduction "
                      "group; \"auto\" picks one that does",
                      batch.micro_batch, group));
    }
  }
}

void check_phases(const Config& config) {
  if (config.phases.empty()) throw usage_error("phases: at least one [[phases]] is needed");
  for (size_t i = 0; i < config.phases.size(); ++i) {
    const Phase& phase = config.phases[i];
    const std::string key = fmt::format("phases.{}.", i);
    const int64_t limit = config.model.max_positions;
    if (limit != kAuto && phase.sequence > limit) {
      throw usage_error(fmt::format("{}sequence: {} is more than model.max_positions, {}", key,
                                    phase.sequence, limit));
    }
    if (config.batch.micro_batch > kMostTokens / phase.sequence) {
      throw usage_error(fmt::format(
          "batch.micro_batch: {} sequences of {} tokens are more than the {} that one pass takes",
          config.batch.micro_batch, phase.sequence, kMostTokens));
    }
    if (phase.final_learning_rate > phase.learning_rate) {
      throw usage_error(fmt::format("{}final_learning_rate: {} is more than learning_rate, {}", key,
                                    phase.final_learning_rate, phase.learning_rate));
    }
  }
}

}  // namespace

void check(const Config& config, const std::string& origin) {
  try {
    check_batch(config);
    check_phases(config);
    if (config.tokenizer.kind == TokenizerKind::kFile && config.tokenizer.path.empty()) {
      throw usage_error("tokenizer.path: kind \"file\" needs the tokenizer's path");
    }
    if (config.tokenizer.kind != TokenizerKind::kFile && !config.tokenizer.path.empty()) {
      throw usage_error("tokenizer.path: only kind \"file\" reads it");
    }
    // The geometry, with stand-ins for what is resolved later.
    Config resolved = config;
    if (resolved.model.vocab == kAuto) resolved.model.vocab = 1;
    resolve_automatic(resolved);
    model_config(resolved);
    recompute_flags(resolved);
  } catch (const Error& error) {
    if (error.code() != ExitCode::kUsage) throw;
    throw usage_error(origin + ": " + error.what());
  }
}

ops::Precision precision_of(const Config& config) {
  return config.precision == NumberFormat::kBf16 ? ops::Precision::kBf16 : ops::Precision::kFp32;
}

model::ModelConfig model_config(const Config& config) {
  const ModelSection& m = config.model;
  model::ModelConfig out;
  out.layers = m.layers;
  out.hidden = m.hidden;
  out.heads.query = m.query_heads;
  out.heads.key = m.key_value_heads;
  out.heads.size = m.head_size;
  out.experts = m.experts;
  out.expert_inner = m.expert_inner;
  out.router = m.router;
  out.vocab = m.vocab;
  out.partial_rotary = m.partial_rotary;
  out.rms_norm_eps = m.rms_norm_eps;
  out.layer_kinds = layer_kinds(m);
  out.sliding_window = m.sliding_window;
  out.theta = config.phases.front().theta;
  out.theta_sliding = m.theta_sliding;
  out.max_positions = m.max_positions;
  out.initializer_range = m.initializer_range;
  out.validate(kKeys);
  return out;
}

std::vector<bool> recompute_flags(const Config& config) {
  const ModelSection& m = config.model;
  std::vector<bool> flags(static_cast<size_t>(m.layers), false);
  if (m.recompute.size() == 1 && m.recompute[0] == "none") return flags;
  if (m.recompute.size() == 1 && m.recompute[0] == "all") {
    flags.assign(flags.size(), true);
    return flags;
  }
  for (const std::string& word : m.recompute) {
    const std::optional<int64_t> layer = layer_number(word);
    if (!layer || *layer < 0 || *layer >= m.layers) {
      throw usage_error(fmt::format(
          "model.recompute: '{}' is neither \"none\" nor \"all\" nor a layer from 0 to {}", word,
          m.layers - 1));
    }
    flags[static_cast<size_t>(*layer)] = true;
  }
  return flags;
}

optim::OptimizerConfig optimizer_config(const Config& config) {
  const OptimizerSection& o = config.optimizer;
  optim::OptimizerConfig out;
  out.kind = o.kind;
  out.muon_momentum = o.muon_momentum;
  out.newton_schulz_steps = static_cast<int>(o.newton_schulz_steps);
  out.newton_schulz_dtype =
      o.newton_schulz_precision == NumberFormat::kBf16 ? DType::kBF16 : DType::kF32;
  out.weight_decay = o.weight_decay;
  out.beta1 = o.adamw_beta1;
  out.beta2 = o.adamw_beta2;
  out.epsilon = o.adamw_epsilon;
  return out;
}

size_t part_bytes(const Config& config) {
  return config.comm.bucket_bytes == kAuto ? comm::CommunicatorOptions().part_bytes
                                           : static_cast<size_t>(config.comm.bucket_bytes);
}

int64_t longest_sequence(const Config& config) {
  int64_t longest = 0;
  for (const Phase& phase : config.phases) longest = std::max(longest, phase.sequence);
  return longest;
}

std::vector<int64_t> batch_sizes(const Config& config) {
  std::vector<int64_t> sizes = {config.batch.sequences};
  for (const RampStep& step : config.batch.ramp) sizes.push_back(step.sequences);
  return sizes;
}

void resolve_automatic(Config& config) {
  if (config.model.max_positions == kAuto) config.model.max_positions = longest_sequence(config);
  if (config.batch.micro_batch != kAuto) return;
  int64_t divisor = 0;
  for (const int64_t sequences : batch_sizes(config)) {
    divisor = std::gcd(divisor, sequences / config.batch.reduction_groups);
  }
  const int64_t most = std::max<int64_t>(1, kMicroBatchTokens / longest_sequence(config));
  int64_t micro_batch = 1;
  for (int64_t n = 1; n <= std::min(most, divisor); ++n) {
    if (divisor % n == 0) micro_batch = n;
  }
  config.batch.micro_batch = micro_batch;
}

namespace {

bool is_automatic(const Field& field) {
  const auto* value = std::get_if<int64_t*>(&field.value);
  return field.automatic && value != nullptr && **value == kAuto;
}

/// A budget's tokens were fitted to it; the file still says what they were before.
bool keeps_fitted_tokens(const Config& stored, const Field& field,
                         const std::set<std::string>& overridden) {
  return stored.run.tokens_fitted && field.key.starts_with("phases.") &&
         field.key.ends_with(".tokens") && !overridden.contains(field.key);
}

}  // namespace

std::vector<ConfigChange> adopt_changes(Config& stored, const Config& wanted,
                                        const std::vector<std::string>& overrides,
                                        const std::string& directory) {
  std::set<std::string> overridden;
  for (const std::string& text : overrides) overridden.insert(text.substr(0, text.find('=')));
  Config next = wanted;
  next.run.tokens_fitted = stored.run.tokens_fitted;
  if (next.run.init.empty()) {  // it goes on without naming the model again
    next.run.init = stored.run.init;
    next.run.init_optimizer = stored.run.init_optimizer;
  }
  if (next.data.path.empty()) next.data.path = stored.data.path;
  const auto differs = [&](const std::string& key, const std::string& was, const std::string& is) {
    return usage_error(fmt::format(
        "{} belongs to a run with another config: {} was {} and is {}; restore it, or name "
        "another folder with --out",
        directory, key, was, is));
  };
  const auto same_size = [&](const char* key, size_t was, size_t is) {
    if (was != is) throw differs(key, std::to_string(was) + " long", std::to_string(is) + " long");
  };
  same_size("phases", stored.phases.size(), next.phases.size());
  same_size("batch.ramp", stored.batch.ramp.size(), next.batch.ramp.size());
  for (size_t i = 0; i < stored.phases.size(); ++i) {
    same_size("sources of a phase", stored.phases[i].sources.size(), next.phases[i].sources.size());
  }

  std::vector<ConfigChange> changes;
  const std::vector<Field> before = fields_of(stored);
  const std::vector<Field> after = fields_of(next);
  for (size_t i = 0; i < before.size(); ++i) {
    const Field& field = after[i];
    const std::string was = value_text(before[i]);
    const std::string is = value_text(field);
    const bool kept = is_automatic(field) || keeps_fitted_tokens(stored, field, overridden);
    if (was == is) continue;
    if (kept) {
      *std::get<int64_t*>(field.value) = *std::get<int64_t*>(before[i].value);
    } else if (field.on_resume == OnResume::kFixed) {
      throw differs(field.key, was, is);
    } else if (field.on_resume == OnResume::kMay) {
      changes.push_back({field.key, was, is});
    }
  }
  check(next, directory);
  stored = next;
  return changes;
}

}  // namespace athanor::train
