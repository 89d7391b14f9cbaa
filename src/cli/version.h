// What `athanor --version` prints.
#pragma once

#include <string>

namespace athanor::cli {

/// "athanor 0.1.0, commit 1234abcd, kernels avx512bf16", and in brackets why they are not the ones
/// that the CPU could run. Throws kUsage when ATHANOR_ISA names
/// kernels that do not exist.
std::string version_text();

}  // namespace athanor::cli
