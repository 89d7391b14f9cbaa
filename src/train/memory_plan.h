// What a run will take, to the byte, before anything is taken.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/context.h"
#include "train/config.h"
#include "train/workspace.h"

namespace athanor::train {

struct ArenaPlan {
  std::string name;
  std::string holds;  ///< in words
  uint64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<ArenaPlan> arenas;  ///< in the order of Arenas::all
  model::ParameterCounts parameters;
  uint64_t total() const;
};

/// Lays what one rank of a run takes out in planning arenas: `config` must be resolved (vocab too).
MemoryPlan plan_memory(const Config& config, const Threads& threads, Place place);

/// The plan as a table for a person.
std::string to_text(const MemoryPlan& plan);

/// Refuses, with the figures, what does not fit into this machine's memory (kResources); else
/// reserves the arenas.
void reserve(const MemoryPlan& plan, Arenas& arenas);

}  // namespace athanor::train
