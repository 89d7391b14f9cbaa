// What `athanor --version` prints.
#pragma once

#include <string>

namespace athanor::cli {

/// "athanor 0.1.0, commit 1234abcd, kernels avx512bf16". Throws kUsage when ATHANOR_ISA names
/// kernels that do not exist.
std::string version_text();

}  // namespace athanor::cli
