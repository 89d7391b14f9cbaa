// What a single key's range cannot say: checks across keys.
#pragma once

#include <string>

#include "train/config.h"

namespace athanor::train {

/// Throws kUsage naming `origin` and the key.
void check(const Config& config, const std::string& origin);

}  // namespace athanor::train
