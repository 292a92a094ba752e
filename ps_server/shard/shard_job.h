// ShardJob: one job's slice on this shard, as the parts that it consists of. Each part has one
// purpose, and says in its header what it locks:
//
//   stripes      what the slice holds of the parameters, and the kernels that apply pushes
//   tables       the same of the rows of tables
//   vectors      what batch jobs add: named vectors and sums of gradients
//   sessions     who may push, and what is remembered of those that are closed
//   writes       what clients write before the first session; whether the slice may be read
//   spare        of a slice that only stores: what a session writes, until it is adopted
//   pushes       takes the records of pushes and contributions
//   fetches      what fetches read
//   checkpoint   what a generation holds of the slice, and how it is made again from that
//   figures      how much was pushed and fetched
//
// Thread safe. Opening and closing sessions and writes exclude each other; pushes and fetches take
// only the locks of the stripes they touch. Lock order: SliceSessions::mutex(), the spare
// room's, then one stripe at a time, or a table's locks. Vectors have locks of their own, under
// which one stripe's is taken at a time; figures have one, under which nothing is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/transport/shm/shared_slice.h"
#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"
#include "ps_server/shard/client_writes.h"
#include "ps_server/shard/session_marks.h"
#include "ps_server/shard/shard_job_plan.h"
#include "ps_server/shard/slice_checkpoint.h"
#include "ps_server/shard/slice_fetches.h"
#include "ps_server/shard/slice_figures.h"
#include "ps_server/shard/slice_pushes.h"
#include "ps_server/shard/slice_sessions.h"
#include "ps_server/shard/slice_stripes.h"
#include "ps_server/shard/spare_room.h"
#include "ps_server/shard/table_slice.h"
#include "ps_server/shard/validation.h"
#include "ps_server/vector/memory_budget.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {

class ShardJob {
 public:
  // `slice` has the plan's shape and is zero. `memory` is the plan's; `budget`
  // outlives the job. `marks` are its sessions', null: none. SliceStripes::Fill follows.
  ShardJob(const CreateShardJobRequest& request, ShardJobPlan plan, uint64_t shard_epoch,
           SharedSlice slice, MemoryBudget::Reservation memory, MemoryBudget* budget,
           std::unique_ptr<SessionMarks> marks = nullptr);

  const CreateShardJobRequest& request() const { return request_; }
  uint64_t shard_epoch() const { return facts_.shard_epoch; }
  const ShardMap& map() const { return facts_.map; }
  // How often the batch job has returned to a generation; 0: it never did. Constant once
  // others have the job.
  uint64_t attempt() const { return attempt_; }
  void set_attempt(uint64_t attempt) { attempt_ = attempt; }

  // Takes what `source` holds, as SliceStripes::TakeOver, before anybody else has this job.
  // FailedPrecondition where that cannot be read, or one of the two has tables.
  absl::Status TakeOver(ShardJob* source, absl::FunctionRef<bool()> go_on);

  CreateShardJobReply Describe() const;
  ShardJobStatus GetStatus() const;
  // As SliceSessions::Marks, with what the slice was restored from.
  absl::StatusOr<MarksReply> Marks(const MarksRequest& request) const;

  // The job is deleted: clients that read its parameters turn to the shard.
  void Retire() { stripes_.slice()->Retire(); }
  // The same for a slice that is made anew: nothing more is to be written of this one.
  void GiveUp() {
    given_up_ = true;
    Retire();
  }
  bool given_up() const { return given_up_; }

  SliceStripes* stripes() { return &stripes_; }
  const SliceStripes& stripes() const { return stripes_; }
  // Of the model's tables; null: it has none.
  TableSlice* tables() { return tables_.get(); }
  const TableSlice* tables() const { return tables_.get(); }
  VectorStore* vectors() { return &vectors_; }
  const VectorStore& vectors() const { return vectors_; }
  SliceSessions* sessions() { return &sessions_; }
  // Of a slice that only stores; null: another one.
  SpareRoom* spare() { return spare_.get(); }
  ClientWrites* writes() { return &writes_; }
  SlicePushes* pushes() { return &pushes_; }
  SliceFetches* fetches() { return &fetches_; }
  SliceCheckpoint* checkpoint() { return &checkpoint_; }
  const SliceCheckpoint& checkpoint() const { return checkpoint_; }
  SliceFigures* figures() { return &figures_; }
  const SliceFigures& figures() const { return figures_; }

 private:
  const CreateShardJobRequest request_;
  const MemoryBudget::Reservation memory_;
  const JobFacts facts_;

  // In the order in which they know each other.
  SliceFigures figures_;
  SliceStripes stripes_;
  const std::unique_ptr<TableSlice> tables_;
  VectorStore vectors_;
  SliceSessions sessions_;
  const std::unique_ptr<SpareRoom> spare_;
  ClientWrites writes_;
  SlicePushes pushes_;
  SliceFetches fetches_;
  SliceCheckpoint checkpoint_;

  uint64_t attempt_ = 0;
  bool from_source_ = false;  // constant once others have the job
  std::atomic<bool> given_up_{false};
};

}  // namespace monsoon
