#include "base/counted.h"

#include <fmt/format.h>

namespace athanor {

std::string counted(uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace athanor
