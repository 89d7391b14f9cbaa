#include "cli/version.h"

#include "athanor_version.h"
#include "ops/context.h"
#include "ops/fallback.h"

namespace athanor::cli {

std::string version_text() {
  std::string text = "athanor " ATHANOR_VERSION ", commit " ATHANOR_COMMIT ", kernels " +
                     std::string(ops::name_of(ops::detected_isa()));
  for (const ops::Fallback& fallback : ops::fallbacks()) text += " (" + fallback.reason + ")";
  return text;
}

}  // namespace athanor::cli
