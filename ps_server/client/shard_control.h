// ShardControl: the control RPCs of one shard (proto/parameter_server.proto).
// Used by the coordinator and by the CLI where it streams a model.
//
// Thread safe. Each call blocks at most for the deadline; a shard that is not
// there yet is UNAVAILABLE or DEADLINE_EXCEEDED, with its address. All calls
// are safe to repeat. Nothing is retried here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/frame/fault.h"
#include "proto/journal_mark.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/revocations.pb.h"

namespace monsoon {

class Tls;

class ShardControl {
 public:
  // Connects lazily. `address` is host:port or unix:PATH. `tls`: as of
  // MakeChannel.
  static std::unique_ptr<ShardControl> Create(std::string address, absl::Duration deadline,
                                              FaultOptions fault = {},
                                              const std::shared_ptr<Tls>& tls = nullptr);
  virtual ~ShardControl() = default;

  virtual const std::string& address() const = 0;

  // All jobs, a page a call. FailedPrecondition when the server speaks another
  // protocol version or belongs to another cluster; "" does not check the cluster. `journal` is
  // the coordinator's, `revoked` what it tells of members that were thrown out; null: nothing.
  virtual absl::StatusOr<ShardStatusReply> GetStatus(
      const std::string& cluster, const std::optional<JournalMark>& journal = std::nullopt,
      const Revocations* revoked = nullptr) = 0;

  // ResourceExhausted with the sum when the job does not fit the shard's
  // memory; AlreadyExists when the job exists with other content.
  virtual absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) = 0;

  // Makes the slice again that an earlier life of the shard had. NotFound where no part
  // on its disk is good enough, FailedPrecondition where it keeps none.
  virtual absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request);

  // `term` is the coordinator's, `job_term` that of the job's submission; both 0
  // where there is no coordinator. `call` as in CreateShardJobRequest. An unknown job is
  // OK: it was deleted before.
  virtual absl::Status DeleteJob(const std::string& job, uint64_t job_term = 0, uint64_t term = 0,
                                 uint64_t call = 0) = 0;

  // Closes older incarnations of the same worker. FailedPrecondition when a
  // newer one is there, or this one as another member's. `call` as above; `member` as in
  // OpenSessionRequest.
  virtual absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& session, uint64_t term = 0,
                                                       uint64_t call = 0,
                                                       const MemberIdentity& member = {}) = 0;

  // After it returns, no push of the session is applied any more.
  virtual absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& session,
                                                         uint64_t term = 0, uint64_t call = 0) = 0;

  // Begins to write a generation; GetStatus tells when it is on the disk.
  // FailedPrecondition from a shard without a state folder, or with a newer one.
  virtual absl::StatusOr<CheckpointReply> Checkpoint(const CheckpointRequest& request) = 0;

  // The job's rate is that of so many reductions from now on (PlateauSchedule).
  virtual absl::StatusOr<ReduceRateReply> ReduceRate(const ReduceRateRequest& request);
  virtual absl::StatusOr<ChangeSettingsReply> ChangeSettings(const ChangeSettingsRequest& request);

  // What a session has written whole under that number becomes the slice's (store_only).
  // FailedPrecondition where it is not there whole.
  virtual absl::StatusOr<AdoptReply> Adopt(const AdoptRequest& request);

  // One operation on a job's vectors, safe to repeat under its op_id. ABORTED:
  // the shard was started anew and has lost them.
  virtual absl::StatusOr<VectorReply> Vector(const VectorRequest& request);
};

}  // namespace monsoon
