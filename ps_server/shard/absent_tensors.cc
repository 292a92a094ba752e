#include "ps_server/shard/absent_tensors.h"

#include <algorithm>

namespace monsoon {

std::vector<OptimizerKernel::PushPart> AbsentTensors::PartsWithout(
    std::span<const uint32_t> absent) const {
  std::vector<OptimizerKernel::PushPart> parts;
  bool adjoins = false;  // the tensor before is the end of the last part
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorSlice& tensor = tensors_[i];
    if (std::ranges::binary_search(absent, tensor.number)) {
      adjoins = false;
      continue;
    }
    const uint64_t pushes = none() ? 0 : pushes_[i];
    if (adjoins && parts.back().absent == pushes) {
      parts.back().end = tensor.floats.end;
    } else {
      parts.push_back({tensor.floats.begin, tensor.floats.end, pushes});
    }
    adjoins = true;
  }
  return parts;
}

void AbsentTensors::Count(std::span<const uint32_t> absent) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (std::ranges::binary_search(absent, tensors_[i].number)) {
      pushes_.resize(tensors_.size(), 0);
      ++pushes_[i];
    }
  }
}

void AbsentTensors::AddTo(StripeRecord* record) const {
  for (size_t i = 0; i < pushes_.size(); ++i) {
    if (pushes_[i] > 0) {
      AbsentPushes* const absent = record->add_absent();
      absent->set_tensor(tensors_[i].number);
      absent->set_pushes(pushes_[i]);
    }
  }
}

void AbsentTensors::Restore(const StripeRecord& record) {
  pushes_.clear();
  for (const AbsentPushes& absent : record.absent()) {
    const auto found = std::ranges::find(tensors_, absent.tensor(), &TensorSlice::number);
    if (found != tensors_.end()) {
      pushes_.resize(tensors_.size(), 0);
      pushes_[static_cast<size_t>(found - tensors_.begin())] =
          std::min<uint64_t>(absent.pushes(), record.version());
    }
  }
}

}  // namespace monsoon
