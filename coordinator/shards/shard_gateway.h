// ShardGateway: one parameter server as the coordinator uses it. An interface,
// so that tests and a simulator can stand in for the network.
//
// Thread safety: GetStatus, Vector and one of the others may run at once; NoteJournal and
// NoteRevoked are for the thread that calls GetStatus. Every call returns within a deadline;
// UNAVAILABLE and DEADLINE_EXCEEDED mean that the shard was not reached. All calls are safe to
// repeat.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/frame/fault.h"
#include "coordinator/shards/shard_command.h"
#include "proto/journal_mark.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/revocations.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

class Tls;

class ShardGateway {
 public:
  virtual ~ShardGateway() = default;

  // What the next GetStatus tells the shard of the coordinator's journal; nothing: it keeps none.
  virtual void NoteJournal(const std::optional<JournalMark>&) {}
  // What GetStatus tells it from now on of members that were thrown out.
  virtual void NoteRevoked(const Revocations&) {}
  // Short deadline.
  virtual absl::StatusOr<ShardStatusReply> GetStatus() = 0;
  virtual absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) = 0;
  // What another life of the shard had. May take longer than the deadline: to repeat it
  // asks whether it is done.
  virtual absl::StatusOr<RestoreShardJobReply> RestoreJob(
      const RestoreShardJobRequest& request) = 0;
  virtual absl::Status DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                                 uint64_t call) = 0;
  virtual absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& session, uint64_t term,
                                                       uint64_t call,
                                                       const MemberIdentity& member) = 0;
  virtual absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& session, uint64_t term,
                                                         uint64_t call) = 0;
  // Begins to write a generation; GetStatus tells when it is on the disk.
  virtual absl::Status Checkpoint(const CheckpointRequest& request) = 0;
  virtual absl::Status ReduceRate(const ReduceRateRequest& request) = 0;
  // FAILED_PRECONDITION where what it is to adopt is not there whole.
  virtual absl::Status Adopt(const AdoptRequest&) {
    return absl::UnimplementedError("this shard adopts no write");
  }
  virtual absl::StatusOr<ChangeSettingsReply> ChangeSettings(
      const ChangeSettingsRequest& request) = 0;
  virtual absl::StatusOr<VectorReply> Vector(const VectorRequest& request) = 0;
};

struct ShardGatewayOptions {
  std::string address;
  std::string cluster;
  // Of GetStatus, of the session calls, Checkpoint, ReduceRate and ChangeSettings, and of
  // CreateJob, RestoreJob, DeleteJob, Adopt and Vector.
  absl::Duration status_deadline;
  absl::Duration session_deadline;
  absl::Duration job_deadline;
  FaultOptions fault;
  std::shared_ptr<Tls> tls;  // as of MakeChannel
};

// Asks the shard to do it; what it says.
ShardAnswer CarryOut(const ShardCommand& command, ShardGateway* shard);

// Over ps_server/client.
std::unique_ptr<ShardGateway> MakeShardGateway(const ShardGatewayOptions& options);

}  // namespace monsoon
