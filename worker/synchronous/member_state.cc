#include "worker/synchronous/member_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/base/xxh3.h"
#include "common/model/bias_ranges.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/range_kernel.h"
#include "proto/downpour.pb.h"
#include "worker/downpour/gradient_clip.h"

namespace monsoon {

std::vector<std::span<const float>> MemberState::Snapshot::spans() const {
  std::vector<std::span<const float>> spans;
  for (const AlignedFloats& vector : vectors) {
    spans.push_back(vector.span());
  }
  return spans;
}

MemberState::MemberState(const Job& job, const ParameterLayout& layout)
    : optimizer_(job.downpour().optimizer()),
      scale_(job.synchronous().scale_rate()),
      tensors_(TensorRanges::OfModel(job.model(), layout, optimizer_)),
      statistics_(StatisticRanges(layout, {0, layout.size()})),
      parameters_(std::make_shared<AlignedFloats>(AlignedFloats::NanFilled(layout.size()))) {}

absl::StatusOr<std::unique_ptr<MemberState>> MemberState::Create(const Job& job,
                                                                 const ParameterLayout& layout) {
  std::unique_ptr<MemberState> state(new MemberState(job, layout));
  RETURN_IF_ERROR(state->SetBatches(1));
  state->slots_ =
      AlignedFloats::NanFilled(layout.size() * static_cast<size_t>(state->kernel_->state_slots()));
  return state;
}

std::vector<std::span<float>> MemberState::vectors() {
  std::vector<std::span<float>> all = {parameters_->span()};
  for (size_t begin = 0; begin < slots_.size(); begin += size()) {
    all.push_back(slots_.span().subspan(begin, size()));
  }
  return all;
}

void MemberState::Take(const SynchronousPosition& at) {
  at_ = at;
  has_ = true;
}

absl::Status MemberState::Fetch(ParameterClient* client, uint64_t batches) {
  Lose();
  uint64_t version = 0;
  uint32_t slot = 0;
  for (const std::span<float> vector : vectors()) {
    FetchMarks marks;
    RETURN_IF_ERROR(client->FetchState(slot++, vector, &marks, nullptr));
    for (const std::vector<StripeMark>& shard : marks.shard) {
      for (const StripeMark& stripe : shard) {
        version = std::max(version, stripe.version);
      }
    }
  }
  SynchronousPosition at;
  at.set_updates(version);
  at.set_batches(batches);
  Take(at);
  return absl::OkStatus();
}

bool MemberState::TakesSums() const {
  return scale_ == Synchronous::LINEAR && optimizer_.has_sgd() && !Decays(optimizer_) &&
         optimizer_.clip_norm() == 0 && optimizer_.clip_value() == 0;
}

absl::Status MemberState::SetBatches(uint64_t batches) {
  const auto k = static_cast<double>(batches);
  Optimizer scaled = optimizer_;
  if (scale_ != Synchronous::NONE && !TakesSums()) {
    SetRate(RateOf(optimizer_) * (scale_ == Synchronous::LINEAR ? k : std::sqrt(k)), &scaled);
  }
  ASSIGN_OR_RETURN(kernel_, CreateRangeKernel(scaled, tensors_, {0, size()}));
  return absl::OkStatus();
}

void MemberState::Apply(std::span<float> sum, uint64_t used, uint64_t taken) {
  if (used > 1) {
    const float mean = 1.0f / static_cast<float>(used);
    if (TakesSums()) {
      ScaleParts(sum, statistics_, mean);
    } else {
      for (float& value : sum) {
        value *= mean;
      }
    }
  }
  ClipGradientNorm(sum, optimizer_.clip_norm(), statistics_);
  kernel_->Apply(at_.updates(), parameters_->span(), slots_.span(), sum);
  at_.set_updates(at_.updates() + 1);
  PassOver(taken);
}

uint64_t MemberState::Digest() const {
  Xxh3 hash;
  const uint64_t at[2] = {at_.updates(), at_.batches()};
  hash.Add(std::as_bytes(std::span(at)));
  hash.Add(std::as_bytes(std::span<const float>(parameters_->span())));
  hash.Add(std::as_bytes(slots_.span()));
  return hash.Digest();
}

MemberState::Snapshot MemberState::Copy() const {
  Snapshot copy;
  copy.at = at_;
  const auto add = [&copy](std::span<const float> from) {
    copy.vectors.push_back(AlignedFloats::NanFilled(from.size()));
    std::ranges::copy(from, copy.vectors.back().data());
  };
  add(parameters_->span());
  for (size_t begin = 0; begin < slots_.size(); begin += size()) {
    add(slots_.span().subspan(begin, size()));
  }
  return copy;
}

}  // namespace monsoon
