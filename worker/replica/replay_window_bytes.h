// How much a worker keeps of its pushes where the cluster file does not say it.
#pragma once

#include <cstdint>
#include <optional>

namespace monsoon {

// A quarter of what is `available` (nothing: nobody knows), but no more than a GiB; and room for
// two whole pushes of `push_bytes`, as long as they take no more than half of what is available.
// With room for less each push waits until two generations are written, one after the other.
uint64_t DefaultReplayWindow(uint64_t push_bytes, std::optional<uint64_t> available);

}  // namespace monsoon
