// A copy past the caches.
#pragma once

#include <cstddef>
#include <span>

namespace monsoon {

// memcpy for what is not read again soon: where the processor can, the destination does
// not go through the caches, so that what is in use there stays. The two must not
// overlap. Other threads see the copy as after a memcpy.
void StreamCopy(std::span<const std::byte> from, std::byte* to);

}  // namespace monsoon
