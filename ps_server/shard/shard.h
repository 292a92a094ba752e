// Shard: everything one parameter server knows, as a core without threads,
// clocks, randomness or gRPC. It holds its slice of every job and answers the
// RPCs of proto/parameter_server.proto and the frames of proto/tensor.proto.
//
// It does not talk to other shards and writes nothing to disk: ps_server/checkpoint
// does, with what a ShardJob lets it cut. Calls of a coordinator
// whose life is over are refused by their term (parameter_server.proto).
//
// Nothing that a peer sends takes memory which the budget does not count, but for
// the message itself and a description of its model.
//
// Thread safe; calls on different jobs or stripes do not wait for each other. A
// job's slice is filled without a lock: what asks for it meanwhile is told so.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/security/caller.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/shard/given_up_slices.h"
#include "ps_server/shard/session_marks.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/sessions_to_open.h"
#include "ps_server/shard/shard_job.h"
#include "ps_server/shard/shard_job_plan.h"
#include "ps_server/shard/shared_files.h"
#include "ps_server/shard/table_slice.h"
#include "ps_server/vector/memory_budget.h"

namespace monsoon {

struct ShardOptions {
  std::string cluster;
  uint32_t task = 0;
  // New at each start of the process; not 0.
  uint64_t shard_epoch = 0;
  uint64_t memory_limit_bytes = 0;
  // Called without a lock; null: no marks are kept.
  std::function<MakeSessionMarks> make_session_marks;
  const Clock* clock = Clock::Real();  // of rounds
  // Where the limit comes from, for people.
  std::string memory_limit_is = "ps.memory_limit_mib in the cluster file";
};

class Shard {
 public:
  // With their longest names and all values of staleness a reply stays under
  // 4 MiB, what gRPC's clients take.
  static constexpr size_t kJobsPerStatus = 48;

  explicit Shard(ShardOptions options);

  // FailedPrecondition when protocol or cluster differ. Of the jobs a page of
  // kJobsPerStatus at most. The caller fills in what belongs to the process (pid,
  // rss_bytes, message_memory_bytes).
  absl::StatusOr<ShardStatusReply> GetStatus(const ShardStatusRequest& request) const;

  // ResourceExhausted names the sum and the budget; AlreadyExists when the job
  // exists with other content; Unavailable while another call makes it. Blocks
  // until the slice is filled.
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request);
  // The same with a content that `restore` gives it and with the request's sessions,
  // before anybody else has the job. `restore` gets the job with empty stripes, which
  // sessions are to be open (rising, of each worker the newest that the request names),
  // and what to ask now and then whether to go on; its error is the answer. The job's
  // term and the request's sessions are checked first: InvalidArgument says what is
  // wrong. A job that is there is answered as it is if it is of the request's attempt;
  // ABORTED if it is of a later one, Unavailable if it is of an earlier one, or is still
  // held by somebody after GiveUpEarlier.
  using RestoreContent =
      absl::FunctionRef<absl::Status(const std::shared_ptr<ShardJob>&, std::span<const SessionId>,
                                     absl::FunctionRef<bool()> go_on)>;
  absl::StatusOr<std::shared_ptr<ShardJob>> RestoreJob(const RestoreShardJobRequest& request,
                                                       RestoreContent restore);
  // Before RestoreJob: takes the job's slice away if it is of an earlier attempt than the
  // request's. Readers turn to the shard then, which does not have the job; its memory is
  // free once nobody else holds it (AwaitGivenUp). Checks what RestoreJob does: ABORTED
  // for a slice of a later attempt, AlreadyExists for one of other content.
  absl::Status GiveUpEarlier(const RestoreShardJobRequest& request);
  // Waits until no slice of the job that was given up is held by anybody. Unavailable
  // after `patience`.
  absl::Status AwaitGivenUp(const std::string& job, uint64_t job_term, absl::Duration patience);
  // An unknown job is OK: it was deleted before. Its memory is free for the next job. Unavailable
  // when it is still being made: that is given up, and the call must be repeated.
  absl::Status DeleteJob(const std::string& job, uint64_t job_term = 0, uint64_t term = 0,
                         uint64_t call = 0);

  // FailedPrecondition for a call of an earlier term, or one that was overtaken: the slice may have
  // been made anew since, and whoever has had a session of it cannot be written to any more; and
  // for a session that is open as another member's. InvalidArgument for a member that none is.
  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& session, uint64_t term = 0,
                                               uint64_t call = 0,
                                               const MemberIdentity& member = {});
  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& session, uint64_t term = 0,
                                                 uint64_t call = 0);

  // NotFound; FailedPrecondition for a call of an earlier term, or a job without a
  // PlateauSchedule.
  absl::Status ReduceRate(const ReduceRateRequest& request);
  // As SliceStripes::ChangeSettings.
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(const ChangeSettingsRequest& request);

  // What a session has written whole under that number becomes the slice's (SpareRoom::Adopt).
  // NotFound; FailedPrecondition also for a call of an earlier term, and a slice that does not only
  // store.
  absl::StatusOr<AdoptReply> Adopt(const AdoptRequest& request);

  // The job that `request` is to be cut from; the caller does that. NotFound,
  // FailedPrecondition for a call of an earlier term or while the slice cannot be read
  // (CheckReadable), and Unavailable until it has all again that an earlier life had
  // acknowledged: blocks count as done by then that a part without it would lack.
  absl::StatusOr<std::shared_ptr<ShardJob>> StartCheckpoint(const CheckpointRequest& request);

  // One operation on a job's vectors; see VectorStore. ABORTED when the request
  // was meant for an earlier epoch or for another attempt, NotFound for an unknown job.
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request);

  // Before each frame that names a session. Nothing where it is not open here; OK where it is the
  // caller's, or nobody's; PermissionDenied says whose it is (SessionOwners). Allocates nothing
  // where it is the caller's.
  std::optional<absl::Status> CheckOwner(const SessionKey& session, const Caller& caller) const;

  // The data plane. An error means that the frame was malformed and changed
  // nothing; what is wrong with single records is in the verdicts. `scratch`
  // has kMaxFramePayloadBytes.
  absl::StatusOr<PushReply> Push(const PushRequest& request, ChunkCursor* payload,
                                 AlignedFloats* scratch);
  absl::StatusOr<PushReply> Contribute(const ContributeRequest& request, ChunkCursor* payload,
                                       AlignedFloats* scratch);
  absl::StatusOr<WriteReply> Write(const WriteRequest& request, ChunkCursor* payload,
                                   AlignedFloats* scratch);
  // Rows of tables. NotFound for a fetch of an unknown job.
  absl::StatusOr<RowPushReply> PushRows(const RowPushRequest& request, ChunkCursor* payload,
                                        AlignedFloats* scratch);
  absl::StatusOr<TableSlice::Rows> FetchRows(const RowFetchRequest& request,
                                             ChunkCursor* payload) const;
  absl::StatusOr<WriteReply> WriteRows(const RowWriteRequest& request, ChunkCursor* payload,
                                       AlignedFloats* scratch);
  // What it has of a session's pushes. NotFound too for an unknown job.
  absl::StatusOr<MarksReply> Marks(const MarksRequest& request) const;
  // The job that serves `request`, checked; NotFound or InvalidArgument.
  absl::StatusOr<std::shared_ptr<ShardJob>> StartFetch(const FetchRequest& request) const;

  // From now on pushes are refused as REFUSED_BUSY and new jobs and sessions
  // as Unavailable; pushes being applied finish.
  void StartDraining() { draining_ = true; }
  bool draining() const { return draining_; }
  uint64_t shard_epoch() const { return options_.shard_epoch; }

  std::shared_ptr<ShardJob> FindJob(const std::string& job, uint64_t job_term = 0) const;

 private:
  // A job being made, until it is destroyed.
  class Creation;

  // A job of any life of the coordinator.
  struct JobKey {
    std::string job;
    uint64_t term = 0;
    auto operator<=>(const JobKey&) const = default;
  };
  // Finds one by its parts, without a copy of the name.
  using JobParts = std::pair<absl::string_view, uint64_t>;
  struct JobOrder {
    using is_transparent = void;
    static JobParts PartsOf(const JobKey& key) { return {key.job, key.term}; }
    static JobParts PartsOf(const JobParts& parts) { return parts; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return PartsOf(a) < PartsOf(b);
    }
  };

  // Notes the term of a control call; FailedPrecondition for that of a coordinator
  // which has been replaced, and for a numbered call that was overtaken.
  absl::Status Fence(uint64_t term);
  absl::Status Fence(uint64_t term, uint64_t call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(jobs_mutex_);
  absl::Status CheckServing() const;
  // Gives a new job, of empty stripes, what it holds.
  using MakeContent = absl::FunctionRef<absl::Status(const std::shared_ptr<ShardJob>&,
                                                     absl::FunctionRef<bool()> go_on)>;
  // Of which attempt a slice is to be; none: it is made fresh, nothing of an earlier life
  // counts, and one that is there may be of any.
  using Attempt = std::optional<uint64_t>;
  // Without `call`'s term; the one that is there, if it has the same content.
  absl::StatusOr<std::shared_ptr<ShardJob>> MakeJob(const CreateShardJobRequest& call,
                                                    Attempt attempt, MakeContent make);
  absl::StatusOr<std::shared_ptr<ShardJob>> MakeOrFind(const CreateShardJobRequest& request,
                                                       Attempt attempt, MakeContent make);
  // NotFound names the job.
  absl::StatusOr<std::shared_ptr<ShardJob>> FindKnown(const std::string& job,
                                                      uint64_t job_term) const;
  // The verdicts for the records of a job that is not here.
  template <typename Request>
  PushReply RefuseUnknownJob(const Request& request) const;

  const ShardOptions options_;
  std::atomic<bool> draining_{false};
  // These two outlive the jobs.
  MemoryBudget budget_;
  GivenUpSlices given_up_;
  SharedFiles files_;

  mutable Mutex jobs_mutex_;
  std::map<JobKey, std::shared_ptr<ShardJob>, JobOrder> jobs_ ABSL_GUARDED_BY(jobs_mutex_);
  // Jobs being made: whether they were deleted meanwhile. Not in jobs_.
  std::map<JobKey, bool> creations_ ABSL_GUARDED_BY(jobs_mutex_);
  uint64_t term_ ABSL_GUARDED_BY(jobs_mutex_) = 0;  // the highest seen
  uint64_t call_ ABSL_GUARDED_BY(jobs_mutex_) = 0;  // in that term
};

}  // namespace monsoon
