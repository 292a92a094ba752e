#include "common/memory/stream_copy.h"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace monsoon {

#ifdef __SSE2__
void StreamCopy(std::span<const std::byte> from, std::byte* to) {
  constexpr size_t kLine = 64;
  constexpr size_t kWord = sizeof(__m128i);
  if (from.size() < 4 * kLine) {
    if (!from.empty()) {
      std::memcpy(to, from.data(), from.size());
    }
    return;
  }
  const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
  std::memcpy(to, from.data(), head);
  size_t i = head;
  for (; i + kLine <= from.size(); i += kLine) {
    for (size_t word = 0; word < kLine; word += kWord) {
      const __m128i value =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + i + word));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + word), value);
    }
  }
  _mm_sfence();  // such stores are not in the order of others
  std::memcpy(to + i, from.data() + i, from.size() - i);
}
#else
void StreamCopy(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty()) {
    std::memcpy(to, from.data(), from.size());
  }
}
#endif

}  // namespace monsoon
