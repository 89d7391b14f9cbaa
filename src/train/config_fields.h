// The table of config keys: one place that reading, writing and comparing go by.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "train/config.h"

namespace athanor::train {

/// What may become of a key when a run goes on.
enum class OnResume : uint8_t {
  kFixed,   ///< a difference is refused
  kMay,     ///< a difference is an event
  kFollow,  ///< taken over without a word: places of files, marks of the program
};

/// A value with one of a few names: the enumerators of a one-byte enum, in order.
struct Choice {
  unsigned char* value;
  std::vector<std::string_view> names;
};

using FieldValue =
    std::variant<int64_t*, double*, bool*, std::string*, std::vector<std::string>*, Choice>;

struct Field {
  std::string key;  ///< "model.layers", "phases.0.tokens"
  FieldValue value;
  double minimum = 0;  ///< of numbers, inclusive
  double maximum = 0;
  bool required = false;
  bool automatic = false;  ///< "auto" is accepted and stands for kAuto
  OnResume on_resume = OnResume::kFixed;
  std::pair<std::string_view, std::string_view>
      former;  ///< a choice's name in older files, and now
};

/// All keys of `config`, in the order of the written file; lists (phases, their sources, the ramp)
/// have as many as they hold.
std::vector<Field> fields_of(Config& config);

/// The value as TOML. Throws kUsage naming the key for a text, such as a path, that is not UTF-8.
std::string value_text(const Field& field);

}  // namespace athanor::train
