#include "train/config_fields.h"

#include <fmt/format.h>

#include <limits>

#include "base/error.h"
#include "data/utf8.h"

namespace athanor::train {
namespace {

constexpr double kPositive = std::numeric_limits<double>::min();
constexpr double kLarge = 1e15;  // tokens, steps: exact in a double
constexpr double kSizes =
    1LL << 24;  // sizes of a model: what a product of two still holds in 64 bits

/// Collects fields section by section.
class Table {
 public:
  void section(const std::string& prefix) { prefix_ = prefix.empty() ? "" : prefix + "."; }

  Field& integer(const char* key, int64_t& value, double minimum, double maximum = kLarge) {
    return add({prefix_ + key, &value, minimum, maximum});
  }
  Field& real(const char* key, double& value, double minimum, double maximum) {
    return add({prefix_ + key, &value, minimum, maximum});
  }
  Field& flag(const char* key, bool& value) { return add({prefix_ + key, &value}); }
  Field& text(const char* key, std::string& value) { return add({prefix_ + key, &value}); }
  Field& words(const char* key, std::vector<std::string>& value) {
    return add({prefix_ + key, &value});
  }
  template <class Enum>
  Field& choice(const char* key, Enum& value, std::vector<std::string_view> names) {
    static_assert(sizeof(Enum) == 1);
    return add({prefix_ + key, Choice{reinterpret_cast<unsigned char*>(&value), std::move(names)}});
  }

  std::vector<Field> fields;

 private:
  Field& add(Field field) { return fields.emplace_back(std::move(field)); }
  std::string prefix_;
};

void model_fields(Table& t, ModelSection& m) {
  t.section("model");
  t.integer("layers", m.layers, 1, 100'000).required = true;
  t.integer("hidden", m.hidden, 1, kSizes).required = true;
  t.integer("query_heads", m.query_heads, 1, kSizes).required = true;
  t.integer("key_value_heads", m.key_value_heads, 1, kSizes).required = true;
  t.integer("head_size", m.head_size, 1, kSizes).required = true;
  t.integer("experts", m.experts, 1, kSizes).required = true;
  t.integer("expert_inner", m.expert_inner, 1, kSizes).required = true;
  t.integer("router", m.router, 1, kSizes).required = true;
  t.integer("vocab", m.vocab, 1, kSizes).automatic = true;
  t.real("partial_rotary", m.partial_rotary, 0, 1);
  t.real("rms_norm_eps", m.rms_norm_eps, kPositive, 1);
  t.integer("sliding_window", m.sliding_window, 0);
  t.words("layer_types", m.layer_types);
  t.real("theta_sliding", m.theta_sliding, 1, 1e15);
  t.integer("max_positions", m.max_positions, 1, kSizes * 64).automatic = true;
  t.real("initializer_range", m.initializer_range, kPositive, 10);
  t.words("recompute", m.recompute);
}

void phase_fields(Table& t, Phase& phase, size_t number) {
  const std::string section = "phases." + std::to_string(number);
  t.section(section);
  t.text("name", phase.name);
  Field& tokens = t.integer("tokens", phase.tokens, 1);
  tokens.required = true;
  tokens.on_resume = OnResume::kMay;
  t.integer("sequence", phase.sequence, 1, kSizes).required = true;
  t.real("theta", phase.theta, 1, 1e15);
  Field& rate = t.real("learning_rate", phase.learning_rate, kPositive, 100);
  rate.required = true;
  rate.on_resume = OnResume::kMay;
  t.real("final_learning_rate", phase.final_learning_rate, 0, 100).on_resume = OnResume::kMay;
  t.choice("schedule", phase.schedule, {"constant", "cosine", "wsd"});
  t.integer("warmup_steps", phase.warmup_steps, 0).on_resume = OnResume::kMay;
  t.real("decay_share", phase.decay_share, kPositive, 1).on_resume = OnResume::kMay;
  for (size_t i = 0; i < phase.sources.size(); ++i) {
    t.section(section + ".sources." + std::to_string(i));
    Field& path = t.text("path", phase.sources[i].path);
    path.required = true;
    path.on_resume = OnResume::kFollow;
    t.real("weight", phase.sources[i].weight, kPositive, 1e9);
  }
}

void optimizer_fields(Table& t, OptimizerSection& o) {
  t.section("optimizer");
  t.choice("kind", o.kind, {"muon", "adamw"});
  t.real("muon_momentum", o.muon_momentum, 0, 0.9999);
  t.integer("newton_schulz_steps", o.newton_schulz_steps, 1, 100);
  t.choice("newton_schulz_precision", o.newton_schulz_precision, {"bf16", "fp32"});
  t.real("weight_decay", o.weight_decay, 0, 10).on_resume = OnResume::kMay;
  t.real("adamw_beta1", o.adamw_beta1, 0, 0.9999999);
  t.real("adamw_beta2", o.adamw_beta2, 0, 0.9999999);
  t.real("adamw_epsilon", o.adamw_epsilon, kPositive, 1);
  t.real("clip", o.clip, 0, 1e9).on_resume = OnResume::kMay;
  t.real("adamw_learning_rate_scale", o.adamw_learning_rate_scale, 0, 1e6).on_resume =
      OnResume::kMay;
  t.real("balancing_learning_rate", o.balancing_learning_rate, 0, 100).on_resume = OnResume::kMay;
}

void upkeep_fields(Table& t, Config& c) {
  t.section("validation");
  t.integer("interval_steps", c.validation.interval_steps, 0).on_resume = OnResume::kMay;
  t.integer("documents", c.validation.documents, 1).on_resume = OnResume::kMay;
  t.section("checkpoint");
  t.integer("interval_steps", c.checkpoint.interval_steps, 0).on_resume = OnResume::kMay;
  t.integer("keep", c.checkpoint.keep, 1, 1'000'000).on_resume = OnResume::kMay;
  t.section("faults");
  t.integer("skip_limit", c.faults.skip_limit, 1).on_resume = OnResume::kMay;
  t.real("spike_sigma", c.faults.spike_sigma, 0, 1e9).on_resume = OnResume::kMay;
  t.integer("spike_steps", c.faults.spike_steps, 1).on_resume = OnResume::kMay;
  t.choice("on_divergence", c.faults.on_divergence, {"stop", "rollback"}).on_resume =
      OnResume::kMay;
  t.section("comm");
  Field& bucket = t.integer("bucket_bytes", c.comm.bucket_bytes, 4096, 1 << 30);
  bucket.automatic = true;
  bucket.on_resume = OnResume::kFollow;
  t.choice("order", c.comm.order, {"tree", "arrival"}).on_resume = OnResume::kMay;
  t.flag("hierarchy", c.comm.hierarchy).on_resume = OnResume::kFollow;
  t.real("silence_limit", c.comm.silence_limit, 1, 1e9).on_resume = OnResume::kFollow;
  t.real("patience", c.comm.patience, 1, 1e9).on_resume = OnResume::kFollow;
  t.integer("hash_interval", c.comm.hash_interval, 0).on_resume = OnResume::kFollow;
}

}  // namespace

std::vector<Field> fields_of(Config& c) {
  Table t;
  t.choice("precision", c.precision, {"bf16", "fp32"});
  t.integer("seed", c.seed, 0);

  t.section("run");
  t.real("time_budget_seconds", c.run.time_budget_seconds, 0, 1e9);
  t.flag("tokens_fitted", c.run.tokens_fitted).on_resume = OnResume::kFollow;
  t.text("init", c.run.init);
  t.choice("init_optimizer", c.run.init_optimizer, {"fresh", "given"});

  model_fields(t, c.model);

  t.section("tokenizer");
  t.choice("kind", c.tokenizer.kind, {"bytes", "byte-level", "byte-fallback", "unigram", "file"})
      .former = {"bpe", "byte-level"};
  t.integer("vocab", c.tokenizer.vocab, 1, kSizes);
  t.text("path", c.tokenizer.path).on_resume = OnResume::kFollow;

  t.section("data");
  t.text("path", c.data.path).on_resume = OnResume::kFollow;
  t.flag("bos", c.data.bos);
  t.flag("eos", c.data.eos);
  t.real("heldout", c.data.heldout, 0, 0.5);
  t.integer("heldout_seed", c.data.heldout_seed, 0);

  t.section("batch");
  t.integer("sequences", c.batch.sequences, 1, kSizes).required = true;
  t.integer("micro_batch", c.batch.micro_batch, 1, kSizes).automatic = true;
  t.integer("reduction_groups", c.batch.reduction_groups, 1, kSizes);
  for (size_t i = 0; i < c.batch.ramp.size(); ++i) {
    t.section("batch.ramp." + std::to_string(i));
    t.integer("tokens", c.batch.ramp[i].tokens, 0).required = true;
    t.integer("sequences", c.batch.ramp[i].sequences, 1, kSizes).required = true;
  }

  for (size_t i = 0; i < c.phases.size(); ++i) phase_fields(t, c.phases[i], i);
  optimizer_fields(t, c.optimizer);
  upkeep_fields(t, c);
  return std::move(t.fields);
}

namespace {

/// A TOML basic string.
std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

struct ValueText {
  const Field& field;
  std::string operator()(const int64_t* v) const {
    return field.automatic && *v == kAuto ? "\"auto\"" : std::to_string(*v);
  }
  std::string operator()(const double* v) const {
    std::string text = fmt::format("{}", *v);  // the shortest that reads back as the same double
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
  }
  std::string operator()(const bool* v) const { return *v ? "true" : "false"; }
  std::string operator()(const std::string* v) const {
    if (data::valid_utf8_prefix(*v) != v->size()) {  // neither TOML nor a manifest can hold it
      throw usage_error(field.key + ": '" + *v + "' is not UTF-8; a link of another name will do");
    }
    return toml_string(*v);
  }
  std::string operator()(const std::vector<std::string>* v) const {
    if (v->size() == 1) return toml_string(v->front());
    std::string text;
    for (const std::string& word : *v) text += (text.empty() ? "" : ", ") + toml_string(word);
    return "[" + text + "]";
  }
  std::string operator()(const Choice& v) const {
    return toml_string(v.names[static_cast<size_t>(*v.value)]);
  }
};

}  // namespace

std::string value_text(const Field& field) { return std::visit(ValueText{field}, field.value); }

}  // namespace athanor::train
