// From text to what a run reads: tokenizer, packed shards, held-out documents. Done once a run directory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "data/loader.h"
#include "data/shards.h"
#include "data/tokenizer.h"
#include "train/config.h"
#include "train/run_directory.h"

namespace athanor::train {

/// What a run reads.
struct PreparedData {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::vector<data::PhaseData> phases;  ///< one for each of the config's
  std::vector<std::shared_ptr<const data::TokenSource>> held_out;
  std::string identity;  ///< of every token of every source: a run that goes on must find it again
};

/// The places that the phases read, each once, in the order in which they are first named: text or packed shards.
std::vector<std::string> source_paths(const Config& config);

/// Opens what the config reads. Packed shards are read where they lie and must have been made with the run's tokenizer.
/// Text is split, its tokenizer trained on the part that is not held out, and packed into the run directory; a step that
/// a killed run left unfinished is done again. `checkpointed` says that the run has trained: then its text is taken as
/// packed at its start. `stop` is asked between the steps and may throw.
PreparedData prepare_data(const Config& config, RunDirectory& directory, bool checkpointed,
                          const Threads& threads, const std::function<void()>& stop);

/// Throws away what was prepared from text, for a config that reads other text or with another tokenizer.
void discard_prepared(const Config& config, RunDirectory& directory);

/// Throws kUsage when model.vocab is set and smaller than the tokenizer's vocabulary.
void require_room(const Config& config, int64_t tokenizer_vocab);

/// The vocabulary that the tokenizer has, or will have at most: what is known before it is trained or its file is there.
int64_t expected_vocab(const Config& config);

}  // namespace athanor::train
