// Counts what a test program takes from the heap. A program that calls allocations() has operators new of
// its own (allocations.cpp); under a sanitizer, which brings its own allocator, there is nothing to count.
#pragma once

#include <cstdint>

namespace athanor::test {

/// False under a sanitizer.
bool counts_allocations();

/// Calls of operator new since the program began, by all threads.
int64_t allocations();

}  // namespace athanor::test
