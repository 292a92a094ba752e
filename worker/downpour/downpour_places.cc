// DownpourRunner's part that knows where parameters and gradients are: the host's memory,
// or the devices of the group.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/codec/wire_formats.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/downpour/gradient_clip.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

uint64_t Newest(const FetchMarks& marks) {
  uint64_t version = 0;
  for (const std::vector<StripeMark>& shard : marks.shard) {
    for (const StripeMark& stripe : shard) {
      version = std::max(version, stripe.version);
    }
  }
  return version;
}

}  // namespace

void DownpourRunner::MoveToDevice(DeviceTraining* device) {
  absl::Status status = options_.step_clip_norm > 0
                            ? absl::UnimplementedError("the norm of each step's gradient")
                        : own_statistics_   ? absl::UnimplementedError("means of statistics")
                        : local_ != nullptr ? local_->MoveTo(device)
                                            : absl::OkStatus();
  local_on_device_ = local_ != nullptr && status.ok();
  // The host clips floats by their norm.
  const WireFormat format = options_.clip_norm > 0 ? FLOAT32 : options_.push_format;
  // One replica's gradient of one step goes to the host while the step still computes.
  const bool direct =
      options_.n_push == 1 && group_->replicas() == 1 && !IsHalf(format) && !differences();
  if (status.ok() && !direct) {
    status = accumulator_.MoveTo(device, format);
    sums_on_device_ = status.ok();
  }
  if (!status.ok()) {
    LOG(WARNING) << "worker/" << options_.worker
                 << ": the host does what the device cannot: " << status.message();
    // A local update reads the round's gradient where it is.
    CHECK(!local_on_device_ || direct || local_->MoveTo(nullptr).ok());
    local_on_device_ = local_on_device_ && direct;
  }
}

absl::Status DownpourRunner::OfDevice(const absl::Status& status) const {
  if (status.ok() || IsDeviceError(status) || absl::IsResourceExhausted(status)) {
    return status;
  }
  return DeviceError(absl::StrCat("worker/", options_.worker, ": ", status.message()));
}

absl::Status DownpourRunner::LandFetch(Fetched fetched) {
  RETURN_IF_ERROR(fetched.status);
  stats_->AddFetch(fetched.stats, fetched.duration);
  fetch_timer_.NoteFetch(fetched.duration);
  if (fetched.fragment.has_value() && !keeps_local_) {
    return absl::OkStatus();  // the whole is to come
  }
  const bool first = store_.empty();
  must_land_ = must_land_ && whole_due_ && fetched.fragment.has_value();
  if (fetched.fragment.has_value()) {
    LandFragment(*fetched.fragment, *fetched.marks);
    group_->SetParameters(store_.front_buffer());
    return absl::OkStatus();
  }
  store_.Swap(std::move(fetched.marks));
  const std::span<const float> local =
      keeps_local_ ? std::span<const float>(store_.back()) : std::span<const float>();
  whole_due_ = false;
  unlanded_.clear();
  keeps_local_ = true;
  if (first && differences()) {
    const uint64_t each = options_.rounds ? 1 : std::max(1u, control_->replicas());
    const uint64_t pushes = Newest(*store_.marks()) / each;
    local_->GoOnAfter(pushes * options_.local_steps);
  }
  if (local_on_device_) {
    group_->SetFirstParameters(store_.front_buffer());
    local_->Rebase(*store_.marks(), group_->device()->parameters());
    return OfDevice(group_->ShareParameters());
  }
  if (local_ != nullptr) {
    const std::vector<float> fetched = Statistics(store_.front());
    local_->Rebase(*store_.marks(), store_.mutable_front(), local);
    LandStatistics(fetched, local, /*all=*/false, store_.mutable_front());
  } else if (StatisticsMove() && !accumulator_.empty()) {  // a program's, not pushed yet
    LandStatistics(Statistics(store_.front()), local, /*all=*/true, store_.mutable_front());
  }
  group_->SetParameters(store_.front_buffer());
  return absl::OkStatus();
}

absl::Status DownpourRunner::BringParameters() {
  if (!local_on_device_ || store_.empty()) {
    return absl::OkStatus();
  }
  const auto reading =
      group_->device()->Read(group_->device()->parameters(), store_.mutable_front());
  return OfDevice(reading.ok() ? (*reading)->Await() : reading.status());
}

void DownpourRunner::RestoreParameters() {
  if (!store_.empty()) {
    group_->SetParameters(store_.front_buffer());
  }
}

absl::Status DownpourRunner::ComputeRound() {
  const std::span<float> gradient = accumulator_.step_buffer();
  RETURN_IF_ERROR(sums_on_device_ ? group_->ComputeOnDevices()
                                  : group_->ComputeGradients(gradient));
  group_->Reclaim(&store_.front_buffer());
  RETURN_IF_ERROR(JudgeRound());
  bool some = false;
  if (sums_on_device_) {
    const absl::StatusOr<bool> summed = group_->SumOnDevice();
    RETURN_IF_ERROR(OfDevice(summed.status()));
    some = *summed;
  } else {
    some = group_->Sum(gradient);
  }
  if (!some) {
    return differences() ? LeaveNonFinite() : absl::OkStatus();
  }
  if (!sums_on_device_) {
    ClipGradientNorm(gradient, options_.step_clip_norm, statistics_);
  }
  if (own_statistics_) {
    size_t summed = 0;
    for (size_t i = 0; i < group_->size(); ++i) {
      summed += group_->dropped(i) ? 0 : 1;
    }
    ScaleParts(gradient, statistics_, 1.0 / static_cast<double>(summed));
  }
  const absl::Duration begin = differences() ? clock_->Now() : absl::ZeroDuration();
  if (local_on_device_) {
    local_->Step(group_->device()->gradient(), group_->device()->parameters());
    RETURN_IF_ERROR(OfDevice(group_->ShareParameters()));
  } else if (local_ != nullptr) {
    local_->Step(gradient, store_.mutable_front());
    group_->SetParameters(store_.front_buffer());
  }
  stepping_ = differences() ? clock_->Now() - begin : absl::ZeroDuration();
  if (PushesValues() && !StatisticsMove()) {
    WriteValuesOfRound(gradient);
  } else if (PushesValues() && local_ == nullptr) {
    MoveStatistics(gradient);
  }
  accumulator_.Add(store_.marks());
  unpushed_ = differences() ? options_.fragments.count() : 0;
  return absl::OkStatus();
}

void DownpourRunner::MoveStatistics(std::span<const float> gradient) {
  const std::span<float> front = store_.mutable_front();
  for (const Slice& part : statistics_) {
    for (uint64_t i = part.begin; i < part.end; ++i) {
      front[i] -= gradient[i];
    }
  }
}

std::vector<float> DownpourRunner::Statistics(std::span<const float> w) const {
  std::vector<float> values;
  for (const Slice& part : statistics_) {
    const std::span<const float> of_part = w.subspan(part.begin, part.size());
    values.insert(values.end(), of_part.begin(), of_part.end());
  }
  return values;
}

void DownpourRunner::LandStatistics(std::span<const float> fetched, std::span<const float> local,
                                    bool all, std::span<float> w) const {
  if (!PushesValues()) {
    return;
  }
  size_t at = 0;
  for (const Slice& part : statistics_) {
    for (uint64_t i = part.begin; i < part.end; ++i, ++at) {
      if (all || w[i] != fetched[at]) {
        w[i] = local.empty() ? fetched[at] : 0.5f * fetched[at] + 0.5f * local[i];
      }
    }
  }
}

void DownpourRunner::WriteValues(std::span<const float> values, std::span<float> gradient) const {
  for (const Slice& part : statistics_) {
    std::ranges::copy(values.first(part.size()), gradient.subspan(part.begin).begin());
    values = values.subspan(part.size());
  }
}

void DownpourRunner::WriteValuesOfRound(std::span<float> gradient) const {
  for (const Slice& part : statistics_) {
    for (uint64_t i = part.begin; i < part.end; ++i) {
      gradient[i] = store_.front()[i] - gradient[i];
    }
  }
}

}  // namespace monsoon
