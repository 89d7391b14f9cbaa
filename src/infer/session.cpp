#include "infer/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "base/memory.h"
#include "data/text_settings.h"

namespace athanor::infer {
namespace {

model::ModelOptions options_for(int64_t longest_sequence) {
  return {.training = false, .recompute = {}, .rope_positions = longest_sequence};
}

/// What a session will take.
struct Plan {
  Arena values{"parameters"};
  Arena weights{"packed weights"};
  Arena activations{"activations"};
  Arena scratch{"scratch"};

  Plan(const model::ModelConfig& config, ops::Precision precision,
       const model::ModelOptions& options, const Work& work) {
    model::Parameters parameters(config, precision, values);
    model::Model model(parameters, weights, options);
    ops::Context ctx(Threads(), scratch);
    model.refresh(ctx);
    work(ctx, model, activations);
  }
  uint64_t bytes() const {
    return values.peak() + weights.peak() + activations.peak() + scratch.peak();
  }
};

}  // namespace

const data::Tokenizer& ModelFiles::require_tokenizer() const {
  if (tokenizer == nullptr) {
    throw usage_error(opened.directory.string() +
                      " holds no tokenizer, so text cannot be read or written; give token ids "
                      "(generate --ids), or add its tokenizer.json");
  }
  return *tokenizer;
}

ModelFiles open_model_files(const fs::path& model) {
  ModelFiles files{checkpoint::open_model(model)};
  files.trained_sequence = files.config().max_positions;
  for (const std::string& warning : files.opened.warnings) log::warning(warning);
  const fs::path& directory = files.opened.directory;
  if (!data::holds_tokenizer(directory)) return files;
  files.tokenizer = data::load_tokenizer(directory);
  if (files.tokenizer->vocab_size() > files.config().vocab) {
    throw data_error(fmt::format(
        "{}: the tokenizer has {} tokens but the model's vocabulary only {}; they do not belong "
        "together",
        directory.string(), files.tokenizer->vocab_size(), files.config().vocab));
  }
  const data::TextSettings settings = data::read_text_settings(directory);
  files.trained_sequence =
      std::min(settings.sequence.value_or(files.trained_sequence), files.trained_sequence);
  if (settings.bos) {
    files.bos = files.tokenizer->special().bos;
    if (files.bos < 0) {
      throw data_error(
          directory.string() +
          ": tokenizer_config.json says add_bos_token, but the tokenizer has no BOS token");
    }
  }
  return files;
}

ops::Precision parse_precision(std::string_view text) {
  for (const ops::Precision precision : {ops::Precision::kBf16, ops::Precision::kFp32}) {
    if (text == ops::name_of(precision)) return precision;
  }
  throw usage_error(fmt::format("precision '{}' is neither bf16 nor fp32", text));
}

Session::Session(const ModelFiles& files, ops::Precision precision, int64_t longest_sequence,
                 const Work& work) {
  const Plan plan(files.config(), precision, options_for(longest_sequence), work);
  require_memory("this model", plan.bytes());
  values_.reserve(plan.values.peak());
  weights_.reserve(plan.weights.peak());
  activations_.reserve(plan.activations.peak());
  scratch_.reserve(plan.scratch.peak());
  parameters_.emplace(files.config(), precision, values_);
  files.opened.load(*parameters_);
  model_.emplace(*parameters_, weights_, options_for(longest_sequence));
  context_.emplace(Threads(), scratch_);
  model_->refresh(*context_);
}

uint64_t Session::memory_for(const ModelFiles& files, ops::Precision precision,
                             int64_t longest_sequence, const Work& work) {
  return Plan(files.config(), precision, options_for(longest_sequence), work).bytes();
}

void Session::make_room(const Work& work) {
  Arena activations("activations");
  Arena scratch("scratch");
  ops::Context planning(context_->threads(), scratch, context_->isa());
  work(planning, *model_, activations);
  const auto missing = [](const Arena& wanted, const Arena& have) {
    return wanted.peak() > have.capacity() ? wanted.peak() - have.capacity() : 0;
  };
  require_memory("a text of this length",
                 missing(activations, activations_) + missing(scratch, scratch_));
  if (missing(activations, activations_) > 0) activations_.reserve(activations.peak());
  if (missing(scratch, scratch_) > 0) scratch_.reserve(scratch.peak());
}

}  // namespace athanor::infer
