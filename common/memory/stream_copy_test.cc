#include "common/memory/stream_copy.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(StreamCopyTest, CopiesAllBytesAndNoOther) {
  std::vector<std::byte> from(2000);
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<std::byte>(i * 7 + 1);
  }
  for (const size_t size : {0u, 1u, 63u, 64u, 255u, 256u, 257u, 319u, 1000u, 1900u}) {
    for (const size_t begin : {0u, 1u, 13u, 64u}) {
      for (const size_t offset : {0u, 1u, 15u, 16u, 63u}) {
        std::vector<std::byte> to(2200, std::byte{0xee});
        StreamCopy(std::span(from).subspan(begin, size), to.data() + offset);
        for (size_t i = 0; i < to.size(); ++i) {
          const bool inside = i >= offset && i < offset + size;
          ASSERT_EQ(to[i], inside ? from[begin + i - offset] : std::byte{0xee})
              << size << " from " << begin << " to " << offset << ": " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace monsoon
