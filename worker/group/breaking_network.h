// A network whose device breaks: a fault for tests (--fault=break_device_after=N).
#pragma once

#include <cstdint>
#include <memory>

#include "worker/nn/network.h"

namespace monsoon {

// Computes `gradients` gradients with `network`; from then on each call fails as
// on a GPU with a sticky error. Thread safety as any network.
std::unique_ptr<Network> MakeBreakingNetwork(std::unique_ptr<Network> network, uint64_t gradients);

}  // namespace monsoon
