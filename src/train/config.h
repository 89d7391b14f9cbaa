// The config of a training run: what the TOML file says, read strictly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"
#include "model/config.h"
#include "ops/context.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace athanor::train {

/// A config integer that says "auto" until it is resolved.
constexpr int64_t kAuto = 0;

/// The three in the middle are trained, in the order of data::TrainedKind.
enum class TokenizerKind : uint8_t { kBytes, kByteLevel, kByteFallback, kUnigram, kFile };
/// What enters matrix products (DESIGN §2, Numbers).
enum class NumberFormat : uint8_t { kBf16, kFp32 };
enum class OnDivergence : uint8_t { kStop, kRollback };
/// The optimizer's state of a run that starts from a model: none, or that of the model's checkpoint.
enum class InitOptimizer : uint8_t { kFresh, kGiven };

struct ModelSection {
  int64_t layers = 0, hidden = 0, query_heads = 0, key_value_heads = 0, head_size = 0;
  int64_t experts = 0, expert_inner = 0, router = 0;
  int64_t vocab = kAuto;  ///< auto: the tokenizer's
  double partial_rotary = 0.5;
  double rms_norm_eps = 1e-5;
  int64_t sliding_window = 0;
  std::vector<std::string> layer_types = {
      "full"};  ///< one word for all ("full", "sliding", "alternating") or one a layer
  double theta_sliding = 1e4;
  int64_t max_positions = kAuto;  ///< auto: the longest sequence of the phases
  double initializer_range = 0.02;
  std::vector<std::string> recompute = {"none"};  ///< "none", "all" or the numbers of the layers
};

struct TokenizerSection {
  TokenizerKind kind = TokenizerKind::kByteLevel;
  int64_t vocab = 8192;  ///< of one that is trained
  std::string path;      ///< file
};

struct DataSection {
  std::string path;
  bool bos = false;
  bool eos = true;
  double heldout = 0.04;  ///< share of the bytes, in whole documents
  int64_t heldout_seed = 1;
};

struct RampStep {
  int64_t tokens = 0;     ///< from this many trained tokens of the run on …
  int64_t sequences = 0;  ///< … a step takes so many sequences
};

struct BatchSection {
  int64_t sequences = 0;
  int64_t micro_batch = kAuto;  ///< sequences
  int64_t reduction_groups = 1;
  std::vector<RampStep> ramp;
};

struct Source {
  std::string path;
  double weight = 1;
};

struct Phase {
  std::string name;
  int64_t tokens = 0;
  int64_t sequence = 0;
  double theta = 1e4;
  double learning_rate = 0;
  double final_learning_rate = 0;
  optim::ScheduleKind schedule = optim::ScheduleKind::kConstant;
  int64_t warmup_steps = 0;
  double decay_share = 0.2;
  std::vector<Source> sources;  ///< none: data.path alone
};

struct OptimizerSection {
  optim::OptimizerKind kind = optim::OptimizerKind::kMuon;
  double muon_momentum = 0.95;
  int64_t newton_schulz_steps = 5;
  NumberFormat newton_schulz_precision = NumberFormat::kBf16;
  double weight_decay = 0.1;
  double adamw_beta1 = 0.9;
  double adamw_beta2 = 0.95;
  double adamw_epsilon = 1e-8;
  double clip = 1.0;  ///< 0: no clipping
  double adamw_learning_rate_scale = 1.0;
  double balancing_learning_rate = 1e-3;
};

struct ValidationSection {
  int64_t interval_steps = 100;  ///< 0: never
  int64_t documents = 16;        ///< held-out documents a validation reads, spread over all
};

struct CheckpointSection {
  int64_t interval_steps = 200;  ///< 0: at the end alone
  int64_t keep = 3;              ///< newest checkpoints that stay
};

struct FaultsSection {
  int64_t skip_limit = 10;  ///< non-finite steps in a row that end the run
  double spike_sigma = 6;   ///< 0: no watch for spikes
  int64_t spike_steps = 20;
  OnDivergence on_divergence = OnDivergence::kStop;
};

/// How ranks work together; none of it changes what a run computes, but `order`.
struct CommSection {
  int64_t bucket_bytes = kAuto;  ///< what travels at once; auto: 4 MiB
  comm::Order order = comm::Order::kTree;
  bool hierarchy = true;      ///< sums cross between hosts once
  double silence_limit = 60;  ///< seconds without a sign of life that end the run
  double patience = 600;      ///< seconds a transfer may stand still while its peer lives
  int64_t hash_interval = 0;  ///< steps between comparisons of the ranks' parameters; 0: none
};

struct RunSection {
  double time_budget_seconds = 0;  ///< 0: none; else the phases' tokens are scaled to fill it
  bool tokens_fitted = false;      ///< written by the program once it has scaled them
  std::string init;  ///< model whose weights and tokenizer the run starts from; --init sets it
  InitOptimizer init_optimizer = InitOptimizer::kFresh;
};

struct Config {
  NumberFormat precision = NumberFormat::kBf16;
  int64_t seed = 1;
  ModelSection model;
  TokenizerSection tokenizer;
  DataSection data;
  BatchSection batch;
  std::vector<Phase> phases;
  OptimizerSection optimizer;
  ValidationSection validation;
  CheckpointSection checkpoint;
  FaultsSection faults;
  CommSection comm;
  RunSection run;
};

/// Reads the TOML file and applies `overrides` ("a.b=c", c in TOML or a bare word). Every fault
/// throws kUsage in one line with the file (or --set), the key and what would mend it; an unknown
/// key names the nearest known one.
Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides);
/// The same for text; `origin` stands for the file in messages.
Config parse_config(std::string_view toml, const std::string& origin,
                    const std::vector<std::string>& overrides);

/// The config as TOML: every key, in one order; parse_config gives the same config back.
std::string to_toml(const Config& config);

/// What another start says differently about a run that goes on.
struct ConfigChange {
  std::string key;
  std::string before;
  std::string after;
};

/// What `wanted` changes about the run `stored`, applied to `stored`; what `wanted` leaves to be
/// resolved (auto) stays as stored. Learning rates, intervals, tokens and fault limits may change;
/// another difference throws kUsage naming the key and `directory`. Where data and tokenizer lie is
/// taken over without a word: their identity is checked elsewhere. `overrides` as in read_config:
/// tokens that were fitted to a time budget stay unless they are named there.
std::vector<ConfigChange> adopt_changes(Config& stored, const Config& wanted,
                                        const std::vector<std::string>& overrides,
                                        const std::string& directory);

/// The geometry that the config describes; model.vocab and model.max_positions must be resolved.
/// theta is the first phase's. Throws kUsage naming the key that does not fit.
model::ModelConfig model_config(const Config& config);
ops::Precision precision_of(const Config& config);
/// One flag a layer: which blocks are recomputed.
std::vector<bool> recompute_flags(const Config& config);
optim::OptimizerConfig optimizer_config(const Config& config);

/// comm.bucket_bytes, resolved.
size_t part_bytes(const Config& config);
/// The longest sequence of all phases.
int64_t longest_sequence(const Config& config);
/// Numbers of sequences that a step can have: batch.sequences and the ramp's.
std::vector<int64_t> batch_sizes(const Config& config);

/// Resolves batch.micro_batch and model.max_positions where they say auto. micro_batch: the largest
/// number of sequences that divides every reduction group and keeps a micro-batch within 4,096
/// tokens (activations stay small while each expert still sees enough tokens for a product), at
/// least 1.
void resolve_automatic(Config& config);

}  // namespace athanor::train
