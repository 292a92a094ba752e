// Threads that work beside one that computes.
#pragma once

namespace monsoon {

// From now on the calling thread, when it wakes up, does not push another one
// off its core: it waits for a free core, or for its turn. For a thread that
// works ahead of one that computes. Not for one that somebody waits for: on a
// busy machine that one would wait too. Nothing changes where the system does
// not allow it.
void DoNotPreempt();

}  // namespace monsoon
