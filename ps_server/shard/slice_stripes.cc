#include "ps_server/shard/slice_stripes.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/memory/aligned_floats.h"
#include "common/model/initializer.h"
#include "common/model/tensor_slices.h"
#include "common/optimizer/optimizer_groups.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/optimizer/range_kernel.h"
#include "common/settings/number_rule.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/shard_checkpoint.pb.h"
#include "ps_server/shard/round.h"
#include "ps_server/shard/shard_job_plan.h"
#include "ps_server/vector/contribution_sum.h"

namespace monsoon {

using google::protobuf::util::MessageDifferencer;

SliceStripes::SliceStripes(const CreateShardJobRequest* request, const JobFacts* facts,
                           std::shared_ptr<RateReductions> reductions,
                           std::unique_ptr<OptimizerKernel> kernel, SharedSlice slice)
    : request_(*request),
      facts_(*facts),
      reductions_(std::move(reductions)),
      kernel_(std::move(kernel)),
      slice_(std::move(slice)),
      settings_revision_(request->settings_revision()) {
  // With a pointer to the stripe and the allocator's own bytes.
  static_assert(sizeof(StripeHeader) + sizeof(Stripe) + sizeof(void*) + 16 +
                    ContributionSum::kStripeBytes <=
                kStripeOverheadBytes);
}

void SliceStripes::Fill(const ParameterLayout& layout, const std::shared_ptr<FloatArena>& state,
                        const Clock* clock) {
  const uint32_t shard = facts_.shard;
  const StateBehind behind = StateBehind::Of(request_);
  Stripe::Options options{.damping = request_.optimizer().damping(),
                          .rounds = std::nullopt,
                          .changes = request_.fetch_changes(),
                          .most_stale = request_.has_drop_older_than() ? request_.drop_older_than()
                                                                       : Stripe::kAnyStaleness};
  if (behind.round) {
    options.rounds = RoundRule::From(request_.rounds(), clock);
  }
  if (state != nullptr) {
    state->Take(StateLead(*kernel_, facts_.map, behind));
  }
  const TensorRanges tensors =
      TensorRanges::Of(layout, request_.optimizer(), facts_.map.shard(shard));
  stripes_.reserve(facts_.map.stripes(shard));
  for (uint32_t i = 0; i < facts_.map.stripes(shard); ++i) {
    const Slice stripe = facts_.map.stripe(shard, i);
    stripes_.push_back(std::make_unique<Stripe>(
        &slice_, i, KernelOf(tensors, stripe), facts_.shard_epoch,
        state == nullptr
            ? AlignedFloats()
            : AlignedFloats(state, Stripe::StateFloats(*kernel_, stripe.size(), behind)),
        options, TensorSlices(layout, stripe)));
    CHECK_EQ(stripes_.back()->size(), stripe.size());
  }
}

absl::Status SliceStripes::Initialize(absl::FunctionRef<bool()> go_on) {
  if (request_.written_by_client()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(request_.model()));
  for (uint32_t i = 0; i < stripes_.size(); ++i) {
    if (!go_on()) {
      return absl::CancelledError("its slice is given up");
    }
    AlignedFloats initial(stripes_[i]->size());
    monsoon::Initialize(layout, request_.seed(), facts_.map.stripe(facts_.shard, i).begin,
                        initial.span());
    stripes_[i]->Write(initial.span());
  }
  return absl::OkStatus();
}

absl::Status SliceStripes::TakeOver(const SliceStripes& source, absl::FunctionRef<bool()> go_on) {
  if (source.facts_.layout_hash != facts_.layout_hash) {
    return absl::FailedPreconditionError(
        absl::StrCat("its slice is of another layout than that of ", source.facts_.job));
  }
  if (source.count() != count()) {
    return absl::FailedPreconditionError(absl::StrCat("its slice has ", count(),
                                                      " stripes, that of ", source.facts_.job,
                                                      " has ", source.count()));
  }
  const bool same_kind =
      OptimizerName(request_.optimizer()) == OptimizerName(source.request_.optimizer()) &&
      optimizer_slots() == source.optimizer_slots();
  for (uint32_t i = 0; i < count(); ++i) {
    if (!go_on()) {
      return absl::CancelledError("its slice is given up");
    }
    const size_t size = at(i).size();
    if (source.at(i).size() != size) {
      return absl::FailedPreconditionError(absl::StrCat("stripe ", i, " has ", size,
                                                        " floats, that of ", source.facts_.job,
                                                        " has ", source.at(i).size()));
    }
    AlignedFloats parameters(size);
    AlignedFloats state(size * static_cast<size_t>(source.state_slots()));
    const StripeRecord cut = source.at(i).Cut(parameters.span(), state.span());
    at(i).Write(parameters.span());
    at(i).RaiseVersion(cut.version());
    if (same_kind) {
      for (uint32_t slot = 1; slot <= static_cast<uint32_t>(optimizer_slots()); ++slot) {
        at(i).Write(state.span().subspan(size_t{slot - 1} * size, size), slot);
      }
      at(i).TakeAbsent(cut);
    }
  }
  return absl::OkStatus();
}

void SliceStripes::Clear() {
  for (const auto& stripe : stripes_) {
    stripe->Clear();
  }
}

const OptimizerKernel* SliceStripes::KernelOf(const TensorRanges& tensors, const Slice& stripe) {
  const TensorRanges own = tensors.Within(stripe);
  if (own.empty()) {
    return kernel_.get();
  }
  absl::StatusOr<std::unique_ptr<OptimizerKernel>> kernel =
      CreateRangeKernel(request_.optimizer(), own, stripe, reductions_);
  CHECK_OK(kernel.status());  // PlanJob has made the same one
  return stripe_kernels_.emplace_back(*std::move(kernel)).get();
}

int SliceStripes::state_slots() const {
  return kernel_->state_slots() + static_cast<int>(StateBehind::Of(request_).slots());
}

absl::Status SliceStripes::ReduceRate(uint32_t reductions) {
  if (reductions_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", facts_.job, " has no optimizer.schedule.plateau"));
  }
  // A call that was overtaken must not take back what a later one has reduced.
  uint32_t known = reductions_->load();
  while (known < reductions && !reductions_->compare_exchange_weak(known, reductions)) {
  }
  return absl::OkStatus();
}

absl::Status SliceStripes::CheckChange(const ChangeSettingsRequest& request) const {
  if (request.revision() == 0) {
    return absl::InvalidArgumentError("revisions of settings start at 1");
  }
  if (OptimizerName(request.optimizer()) != OptimizerName(request_.optimizer())) {
    return absl::InvalidArgumentError(
        absl::StrCat("its optimizer is ", OptimizerName(request_.optimizer()),
                     ", and cannot become ", OptimizerName(request.optimizer())));
  }
  // What a kernel counts and keeps follows from these.
  if (!MessageDifferencer::Equals(request.optimizer().schedule(),
                                  request_.optimizer().schedule()) ||
      request.has_rounds() != request_.has_rounds()) {
    return absl::InvalidArgumentError("its schedule, and whether it has rounds, cannot change");
  }
  RETURN_IF_ERROR(CheckNumbers(request.rounds(), "rounds."));
  return CheckGroups(request.optimizer());
}

absl::StatusOr<std::vector<StripeRules::Change>> SliceStripes::ChangesFor(
    const ChangeSettingsRequest& request) const {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(request_.model()));
  ASSIGN_OR_RETURN(const std::shared_ptr<const OptimizerKernel> kernel,
                   OptimizerKernel::Create(request.optimizer(), reductions_));
  if (kernel->state_slots() != kernel_->state_slots()) {
    return absl::InvalidArgumentError(absl::StrCat("its optimizer keeps ", kernel_->state_slots(),
                                                   " floats for each parameter, ",
                                                   "and would need ", kernel->state_slots()));
  }
  const TensorRanges tensors =
      TensorRanges::Of(layout, request.optimizer(), facts_.map.shard(facts_.shard));
  std::vector<StripeRules::Change> changes(stripes_.size());
  for (uint32_t i = 0; i < stripes_.size(); ++i) {
    const Slice stripe = facts_.map.stripe(facts_.shard, i);
    StripeRules::Change& change = changes[i];
    change.kernel = kernel;
    if (const TensorRanges own = tensors.Within(stripe); !own.empty()) {
      ASSIGN_OR_RETURN(change.kernel,
                       CreateRangeKernel(request.optimizer(), own, stripe, reductions_));
    }
    change.damping = request.optimizer().damping();
    change.most_stale =
        request.has_drop_older_than() ? request.drop_older_than() : Stripe::kAnyStaleness;
    change.rounds = RoundRule::From(request.rounds(), /*clock=*/nullptr);  // the stripe's stays
  }
  return changes;
}

absl::StatusOr<uint64_t> SliceStripes::ChangeSettings(const ChangeSettingsRequest& request) {
  RETURN_IF_ERROR(CheckChange(request));
  ASSIGN_OR_RETURN(std::vector<StripeRules::Change> changes, ChangesFor(request));
  MutexLock lock(&settings_mutex_);
  if (request.revision() <= settings_revision_) {
    return settings_from_;
  }
  if (request.has_rounds() && !request.has_from_version()) {
    uint64_t most = 0;
    for (const auto& stripe : stripes_) {
      most = std::max(most, stripe->ChangeRules(std::nullopt));
    }
    return most;
  }
  settings_from_ = request.has_rounds() ? request.from_version() : 0;
  for (uint32_t i = 0; i < stripes_.size(); ++i) {
    const uint64_t from = stripes_[i]->ChangeRules(
        std::move(changes[i]), request.has_rounds() ? request.from_version() : 0);
    settings_from_ = std::max(settings_from_, from);
  }
  settings_revision_ = request.revision();
  return settings_from_;
}

void SliceStripes::AddTo(ShardJobStatus* status) const {
  uint64_t least = UINT64_MAX, most = 0;
  for (const auto& stripe : stripes_) {
    const uint64_t version = stripe->version();
    least = std::min(least, version);
    most = std::max(most, version);
  }
  status->set_version_min(least);
  status->set_version_max(most);
  if (reductions_ != nullptr) {
    status->set_rate_reductions(reductions_->load());
  }
  MutexLock lock(&settings_mutex_);
  status->set_settings_revision(settings_revision_);
  status->set_settings_from(settings_from_);
}

void SliceStripes::TakeStripe(uint32_t stripe, std::span<float> out) {
  // A worker that reaches its other shards alone cannot tell this one that it has nothing to push.
  stripes_[stripe]->Pass(/*session=*/std::nullopt);
  stripes_[stripe]->Copy(/*session=*/std::nullopt, out);
}

void SliceStripes::WriteStripe(uint32_t stripe, std::span<const float> parameters) {
  stripes_[stripe]->Write(parameters);
}

std::string SliceStripes::Snapshot() const {
  std::string bytes;
  for (const auto& stripe : stripes_) {
    bytes += stripe->Snapshot();
  }
  return bytes;
}

}  // namespace monsoon
