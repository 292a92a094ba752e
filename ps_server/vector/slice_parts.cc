#include "ps_server/vector/slice_parts.h"

#include <algorithm>

namespace monsoon {

std::vector<Slice> Shifted(std::vector<Slice> slices, uint64_t begin) {
  for (Slice& slice : slices) {
    slice = {slice.begin - begin, slice.end - begin};
  }
  return slices;
}

std::vector<Slice> PartsOutside(const Slice& range, const std::vector<Slice>& others) {
  std::vector<Slice> parts;
  uint64_t at = range.begin;
  for (const Slice& other : others) {
    const uint64_t begin = std::min(other.begin, range.end);
    if (at < begin) {
      parts.push_back({at, begin});
    }
    at = std::max(at, other.end);
  }
  if (at < range.end) {
    parts.push_back({at, range.end});
  }
  return parts;
}

void ClearInside(const Slice& range, const std::vector<Slice>& others, std::span<float> part) {
  for (const Slice& other : others) {
    const uint64_t begin = std::max(other.begin, range.begin);
    const uint64_t end = std::min(other.end, range.end);
    if (begin < end) {
      std::ranges::fill(part.subspan(begin - range.begin, end - begin), 0.0f);
    }
  }
}

}  // namespace monsoon
