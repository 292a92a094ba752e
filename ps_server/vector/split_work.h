// SplitWork: an operation's stripes over the cores that this process may use.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace monsoon {

// Of SplitWork, the caller's included. More do not make memory faster.
inline constexpr uint32_t kMostWorkThreads = 4;
// Items a thread has at least: with stripes of 1 MiB about a millisecond of
// work, against some ten microseconds to start a thread.
inline constexpr uint32_t kLeastItemsPerThread = 4;

// Calls `work(i)` for each i below `count` once, in no order, and returns when
// all are done. With few items, or one core, the caller does all. `work` must
// allow calls at once with different i.
void SplitWork(uint32_t count, absl::FunctionRef<void(uint32_t)> work);

}  // namespace monsoon
