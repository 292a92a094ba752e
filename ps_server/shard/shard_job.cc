#include "ps_server/shard/shard_job.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/model/bias_ranges.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"

namespace monsoon {
namespace {

// What lies between tensors, within `slice`.
std::vector<Slice> PaddingOf(const ParameterLayout& layout, const Slice& slice) {
  std::vector<Slice> padding;
  uint64_t end = 0;  // of the tensor before
  const auto add = [&](uint64_t next) {
    const Slice gap{std::max(end, slice.begin), std::min(next, slice.end)};
    if (gap.begin < gap.end) {
      padding.push_back(gap);
    }
  };
  for (const TensorInfo& tensor : layout.tensors()) {
    add(tensor.offset);
    end = tensor.offset + tensor.size;
  }
  add(layout.size());
  return padding;
}

SliceShape ShapeOf(const ShardJobPlan& plan, const CreateShardJobRequest& request) {
  const Slice slice = plan.map.shard(request.shard());
  return {request.job(),
          slice.begin,
          slice.size(),
          plan.map.stripe_floats(),
          PaddingOf(plan.layout, slice),
          BiasRanges(plan.layout, slice),
          StatisticRanges(plan.layout, slice)};
}

}  // namespace

ShardJob::ShardJob(const CreateShardJobRequest& request, ShardJobPlan plan, uint64_t shard_epoch,
                   SharedSlice slice, MemoryBudget::Reservation memory, MemoryBudget* budget,
                   std::unique_ptr<SessionMarks> marks)
    : request_(request),
      memory_(std::move(memory)),
      facts_{request.job(),
             plan.layout.Hash(),
             plan.map,
             request.shard(),
             shard_epoch,
             static_cast<uint32_t>(plan.layout.tensors().size()),
             request.has_rounds(),
             request.store_only()},
      stripes_(&request_, &facts_, std::move(plan.reductions), std::move(plan.kernel),
               std::move(slice)),
      tables_(plan.layout.tables().empty()
                  ? nullptr
                  : std::make_unique<TableSlice>(&facts_, request.seed(), plan.layout.tables())),
      vectors_(ShapeOf(plan, request), &stripes_, budget),
      sessions_(&facts_, &stripes_, tables_.get(), budget, std::move(marks)),
      spare_(request.store_only() ? std::make_unique<SpareRoom>(&facts_, &stripes_) : nullptr),
      writes_(request, &facts_, &stripes_, tables_.get(), &sessions_, spare_.get()),
      pushes_(&facts_, &stripes_, &vectors_, &figures_, budget),
      fetches_(&request_, &facts_, &stripes_, &sessions_, &writes_, &figures_),
      checkpoint_(&request_, &facts_,
                  {.stripes = &stripes_,
                   .tables = tables_.get(),
                   .vectors = &vectors_,
                   .sessions = &sessions_,
                   .writes = &writes_,
                   .figures = &figures_}) {
  // With what the slice's file is rounded up to.
  static_assert(sizeof(ShardJob) + sizeof(SliceHeader) + 4 * 4096 <= kJobOverheadBytes);
}

absl::Status ShardJob::TakeOver(ShardJob* source, absl::FunctionRef<bool()> go_on) {
  RETURN_IF_ERROR(source->writes()->CheckReadable());
  if (source->tables() != nullptr || tables_ != nullptr) {
    return absl::FailedPreconditionError("rows of tables are not taken over");
  }
  {
    const SpareRoom::CutScope cut(source->spare());
    RETURN_IF_ERROR(stripes_.TakeOver(*source->stripes(), go_on));
  }
  writes_.NoteRestored();
  from_source_ = true;
  return absl::OkStatus();
}

CreateShardJobReply ShardJob::Describe() const {
  const Slice slice = facts_.map.shard(facts_.shard);
  CreateShardJobReply reply;
  reply.set_shard_epoch(facts_.shard_epoch);
  reply.set_begin(slice.begin);
  reply.set_end(slice.end);
  reply.set_stripes(stripes_.count());
  reply.set_stripe_bytes(facts_.map.stripe_floats() * sizeof(float));
  reply.set_from_source(from_source_);
  return reply;
}

ShardJobStatus ShardJob::GetStatus() const {
  const CreateShardJobReply shape = Describe();
  ShardJobStatus status;
  status.set_job(facts_.job);
  status.set_job_term(request_.job_term());
  status.set_memory_bytes(memory_.bytes());
  status.set_begin(shape.begin());
  status.set_end(shape.end());
  status.set_stripes(shape.stripes());
  status.set_stripe_bytes(shape.stripe_bytes());
  stripes_.AddTo(&status);
  figures_.AddTo(&status);
  if (tables_ != nullptr) {
    tables_->AddTo(&status);
  }
  if (spare_ != nullptr) {
    status.set_adopted(spare_->adopted());
  }
  return status;
}

absl::StatusOr<MarksReply> ShardJob::Marks(const MarksRequest& request) const {
  ASSIGN_OR_RETURN(MarksReply reply, sessions_.Marks(request));
  reply.set_parent_epoch(checkpoint_.parent().shard_epoch);
  reply.set_parent_generation(checkpoint_.parent().generation);
  reply.set_generation(checkpoint_.written());
  return reply;
}

}  // namespace monsoon
