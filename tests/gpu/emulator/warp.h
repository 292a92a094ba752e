// What threads of a warp do together: bar.warp.sync, shfl.sync, vote.sync, redux.sync.
#pragma once

#include <span>

#include "tests/gpu/emulator/device.h"

namespace monsoon::emulator {

// Lets all exchanges happen whose lanes are all there; whether there was one. `warp`: the
// threads of one warp.
bool ExchangeInWarp(std::span<Thread> warp);

}  // namespace monsoon::emulator
