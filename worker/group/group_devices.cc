// ReplicaGroup's part for gradients that stay on devices.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/group/replica_group.h"
#include "worker/session/session_status.h"

namespace monsoon {

void ReplicaGroup::FindDevices() {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (!replicas_[i].alive) {
      continue;
    }
    DeviceTraining* const device = replicas_[i].holder->network->device_training();
    if (device == nullptr) {
      device_ = nullptr;
      return;
    }
    if (device_ == nullptr) {
      device_ = device;
      first_ = i;
    } else if (const absl::Status status = device_->PrepareFor(*device); !status.ok()) {
      LOG(WARNING) << replicas_[i].name << ": gradients are added up on the host, since "
                   << status.message();
      device_ = nullptr;
      return;
    }
  }
}

absl::Status ReplicaGroup::CheckFirst() const {
  if (replicas_[first_].alive) {
    return absl::OkStatus();
  }
  return DeviceError(absl::StrCat(replicas_[first_].name, " is lost, and with it the sum of all ",
                                  "replicas' gradients: ", replicas_.last_loss().message()));
}

void ReplicaGroup::SetFirstParameters(SharedBuffer parameters) {
  if (alone_ != nullptr) {
    SetParameters(std::move(parameters));
    return;
  }
  parameters_ = std::move(parameters);
  from_first_ = true;
  ++generation_;
  ReplicaRoster::NetworkHolder& first = *replicas_[first_].holder;
  first.network->SetParameters(parameters_->span());
  first.generation = generation_;
}

absl::Status ReplicaGroup::ShareParameters() {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (i != first_ && replicas_[i].alive) {
      ReplicaRoster::NetworkHolder& holder = *replicas_[i].holder;
      holder.network->device_training()->TakeParameters(*device_);
      holder.generation = generation_;
    }
  }
  return replicas_.empty() ? absl::OkStatus() : device_->Finish();
}

absl::Status ReplicaGroup::Work::PutAside() {
  if (device == nullptr || aside != nullptr) {
    return absl::OkStatus();
  }
  const std::span<float> here = device->gradient();
  ASSIGN_OR_RETURN(aside, device->Allocate(here.size(), 0.0f));
  device->Copy(here, aside->span());
  return absl::OkStatus();
}

std::span<const float> ReplicaGroup::Work::OnDevice() const {
  return aside != nullptr ? aside->span() : device->gradient();
}

absl::Status ReplicaGroup::PutAside(const std::vector<size_t>& open) {
  RETURN_IF_ERROR(CheckFirst());
  for (size_t i = 0; i < size_ && !open.empty(); ++i) {
    if (std::find(open.begin(), open.end(), i) == open.end()) {
      RETURN_IF_ERROR(slots_[i]->PutAside());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ReplicaGroup::SumOnDevice() {
  std::vector<Work*> used;
  for (size_t i = 0; i < size_; ++i) {
    if (!slots_[i]->dropped) {
      used.push_back(slots_[i].get());
    }
  }
  if (used.empty()) {
    return false;
  }
  const std::span<float> sum = device_->gradient();
  size_t added = 1;
  if (used[0]->OnDevice().data() != sum.data()) {
    for (Work* const work : used) {
      if (work->OnDevice().data() == sum.data()) {
        RETURN_IF_ERROR(work->PutAside());
      }
    }
    device_->Fill(sum, 0.0f);
    added = 0;
  }
  for (; added < used.size(); ++added) {
    device_->AddToGradient(used[added]->OnDevice(), *used[added]->device);
  }
  RETURN_IF_ERROR(device_->status());
  return true;
}

void ReplicaGroup::AddToSum(size_t i, double weight, std::span<float> sum, bool fresh) {
  device_->AddToSum(weight, slots_[i]->OnDevice(), *slots_[i]->device, sum, fresh);
}

std::vector<float> ReplicaGroup::CopyGradient(size_t i) const {
  const Work& work = *slots_[i];
  if (work.device == nullptr) {
    const std::span<const float> here = gradient(i);
    return {here.begin(), here.end()};
  }
  const std::span<const float> there = work.OnDevice();
  std::vector<float> copy(there.size());
  const auto reading = work.device->Read(there, copy);
  if (!reading.ok() || !(*reading)->Await().ok()) {
    return {};
  }
  return copy;
}

}  // namespace monsoon
