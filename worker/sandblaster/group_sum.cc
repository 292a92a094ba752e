#include "worker/sandblaster/group_sum.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/base/status.h"

namespace monsoon {

GroupSum::GroupSum(size_t floats, ReplicaGroup* group) : group_(group) {
  if (DeviceTraining* const device = group->device(); device != nullptr) {
    absl::StatusOr<std::unique_ptr<PlacedFloats>> sum = device->Allocate(2 * floats, 0.0f);
    absl::StatusOr<std::unique_ptr<PlacedFloats>> rounded =
        sum.ok() ? device->Allocate(floats, 0.0f) : sum.status();
    if (rounded.ok()) {
      sum_ = *std::move(sum);
      rounded_ = *std::move(rounded);
      return;
    }
    LOG(WARNING) << "contributions are added up on the host, since "
                 << std::string(rounded.status().message());
  }
  host_ = std::make_unique<GradientSum>(floats);
  if (group->replicas() == 1) {
    gradient_ = AlignedFloats::NanFilled(floats);
    group->LockPages(&gradient_);
  }
}

absl::Status GroupSum::ComputeRound() {
  return sum_ != nullptr ? group_->ComputeOnDevices() : group_->ComputeGradients(gradient_.span());
}

void GroupSum::Clear() {
  empty_ = true;
  if (host_ != nullptr) {
    host_->Clear();
  }
}

void GroupSum::Add(size_t i, uint64_t examples) {
  if (sum_ != nullptr) {
    group_->AddToSum(i, static_cast<double>(examples), sum_->span(), empty_);
  } else {
    const std::span<const float> gradient = group_->gradient(i);
    group_->ForSlices(gradient.size(), [&](size_t begin, size_t end) {
      host_->AddSlice(gradient, examples, begin, end);
    });
    host_->EndAdd();
  }
  empty_ = false;
}

absl::Status GroupSum::Round(std::span<float> out) {
  CHECK(!empty_);
  if (sum_ == nullptr) {
    host_->Round(out);
    return absl::OkStatus();
  }
  DeviceTraining& device = *group_->device();
  device.Round(sum_->span(), rounded_->span());
  ASSIGN_OR_RETURN(const auto reading, device.Read(rounded_->span(), out));
  return reading->Await();
}

}  // namespace monsoon
