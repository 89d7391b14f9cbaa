#include "optim/groups.h"

#include <array>

#include "base/error.h"

namespace athanor::optim {
namespace {

using model::ParameterKind;

struct Row {
  ParameterKind kind;
  Rule with_muon;
  Rule with_adamw;
};

constexpr std::array kTable = {
    // what                                        optimizer "muon"      optimizer "adamw"
    Row{ParameterKind::kMatrix /* attention, router */, Rule::kMuon, Rule::kAdamW},
    Row{ParameterKind::kExpertMatrices /* one by one */, Rule::kMuon, Rule::kAdamW},
    Row{ParameterKind::kEmbedding /* and the tied head */, Rule::kAdamW, Rule::kAdamW},
    Row{ParameterKind::kConvolution /* of q and k */, Rule::kAdamW, Rule::kAdamW},
    Row{ParameterKind::kVector /* everything 1-D */, Rule::kAdamWNoDecay, Rule::kAdamWNoDecay},
};

}  // namespace

Rule rule_of(OptimizerKind optimizer, ParameterKind parameter) {
  for (const Row& row : kTable) {
    if (row.kind == parameter) {
      return optimizer == OptimizerKind::kMuon ? row.with_muon : row.with_adamw;
    }
  }
  throw bug("a kind of parameter without an optimizer rule");
}

}  // namespace athanor::optim
