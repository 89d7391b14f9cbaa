// How many threads this process should use at most, where it shares its cores with others of the same run.
#pragma once

namespace athanor {

/// allowed_threads() is at most `count` from now on, unless OMP_NUM_THREADS says otherwise.
void limit_threads(int count);

}  // namespace athanor
