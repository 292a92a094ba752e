// The rates of a GPU of this machine, for the roofline model.
#pragma once

#include <cstdint>

#include "tests/gpu/roofline.h"

namespace monsoon::roofline {

// The published ones where the device's name is known, else by its own properties; which of
// them `source` says. Name empty: there is no such device.
Gpu FiguresOf(uint32_t device_index);

}  // namespace monsoon::roofline
