#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace athanor {

Error system_error(int error_number, const std::string& action, const std::string& path,
                   ExitCode otherwise) {
  const bool exhausted = error_number == ENOSPC || error_number == EDQUOT ||
                         error_number == EFBIG || error_number == ENOMEM;
  std::string message = action + " " + path + ": " + std::generic_category().message(error_number);
  if (error_number == ENOSPC || error_number == EDQUOT)
    message += "; free some space and run again";
  return {exhausted ? ExitCode::kResources : otherwise, message};
}

}  // namespace athanor
