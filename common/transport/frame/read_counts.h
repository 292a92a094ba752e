// ReadCounts: what a client has read from memory that it maps, for the server's
// figures. It lies in memory that both may write, so nothing depends on it.
#pragma once

#include <atomic>
#include <cstdint>

namespace monsoon {

struct ReadCounts {
  std::atomic<uint64_t> stripes;
  std::atomic<uint64_t> bytes;
};

}  // namespace monsoon
