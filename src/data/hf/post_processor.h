// Post-processors of tokenizer.json: the special tokens around an encoded text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/hf/json_fields.h"
#include "data/hf/vocabulary.h"

namespace athanor::data::hf {

/// The ids in front of a text's own and behind them.
struct SpecialFrame {
  std::vector<int32_t> front;
  std::vector<int32_t> back;
};

/// The `post_processor` of a file, for single texts. Types that are not known are refused by name.
SpecialFrame read_post_processor(const Field& field, const Vocabulary& vocabulary);

}  // namespace athanor::data::hf
