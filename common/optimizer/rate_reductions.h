#pragma once

#include <atomic>
#include <cstdint>

namespace monsoon {

// How often a PlateauSchedule has reduced the rate, of kernels that are in use meanwhile.
using RateReductions = std::atomic<uint32_t>;

}  // namespace monsoon
