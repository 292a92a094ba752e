#include "common/model/tensor_slices.h"

#include <algorithm>

namespace monsoon {

std::vector<TensorSlice> TensorSlices(const ParameterLayout& layout, const Slice& part) {
  std::vector<TensorSlice> tensors;
  for (uint32_t number = 0; number < layout.tensors().size(); ++number) {
    const TensorInfo& tensor = layout.tensors()[number];
    const uint64_t begin = std::max(tensor.offset, part.begin);
    const uint64_t end = std::min(tensor.offset + tensor.size, part.end);
    if (begin < end) {
      tensors.push_back({number, {begin - part.begin, end - part.begin}});
    }
  }
  tensors.shrink_to_fit();
  return tensors;
}

void KeepCommon(std::span<const TensorSlice> others, std::vector<TensorSlice>* kept) {
  std::erase_if(*kept, [others](const TensorSlice& tensor) {
    return !std::ranges::binary_search(others, tensor.number, {}, &TensorSlice::number);
  });
}

}  // namespace monsoon
