#include "cli/version.h"

#include "athanor_version.h"
#include "ops/context.h"

namespace athanor::cli {

std::string version_text() {
  return "athanor " ATHANOR_VERSION ", commit " ATHANOR_COMMIT ", kernels " +
         std::string(ops::name_of(ops::detected_isa()));
}

}  // namespace athanor::cli
