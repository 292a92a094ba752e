#include "coordinator/shards/shard_gateway.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "ps_server/client/shard_control.h"

namespace monsoon {
namespace {

// What a shard says in words goes to people.
void CleanTexts(ShardStatusReply* reply) {
  reply->set_trouble(PeerText(reply->trouble(), kMostPeerText));
  reply->set_state_dir(PeerText(reply->state_dir(), kMostPeerText));
  for (ShardJobStatus& job : *reply->mutable_job()) {
    job.set_checkpoint_error(PeerText(job.checkpoint_error(), kMostPeerText));
  }
}

class ControlGateway : public ShardGateway {
 public:
  explicit ControlGateway(const ShardGatewayOptions& options)
      : cluster_(options.cluster),
        status_(ShardControl::Create(options.address, options.status_deadline, options.fault,
                                     options.tls)),
        session_(ShardControl::Create(options.address, options.session_deadline, options.fault,
                                      options.tls)),
        job_(ShardControl::Create(options.address, options.job_deadline, options.fault,
                                  options.tls)) {}

  void NoteJournal(const std::optional<JournalMark>& journal) override { journal_ = journal; }
  void NoteRevoked(const Revocations& revoked) override { revoked_ = revoked; }
  absl::StatusOr<ShardStatusReply> GetStatus() override {
    absl::StatusOr<ShardStatusReply> reply =
        status_->GetStatus(cluster_, journal_, revoked_ ? &*revoked_ : nullptr);
    if (reply.ok()) {
      CleanTexts(&*reply);
    }
    return reply;
  }
  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) override {
    return job_->CreateJob(request);
  }
  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request) override {
    return job_->RestoreJob(request);
  }
  absl::Status DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                         uint64_t call) override {
    return job_->DeleteJob(job, job_term, term, call);
  }
  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& session, uint64_t term,
                                               uint64_t call,
                                               const MemberIdentity& member) override {
    return session_->OpenSession(session, term, call, member);
  }
  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& session, uint64_t term,
                                                 uint64_t call) override {
    return session_->CloseSession(session, term, call);
  }
  absl::Status Checkpoint(const CheckpointRequest& request) override {
    return session_->Checkpoint(request).status();
  }
  absl::Status ReduceRate(const ReduceRateRequest& request) override {
    return session_->ReduceRate(request).status();
  }
  absl::Status Adopt(const AdoptRequest& request) override {
    // It copies the whole slice.
    return job_->Adopt(request).status();
  }
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(
      const ChangeSettingsRequest& request) override {
    return session_->ChangeSettings(request);
  }
  absl::StatusOr<VectorReply> Vector(const VectorRequest& request) override {
    return job_->Vector(request);
  }

 private:
  const std::string cluster_;
  std::optional<JournalMark> journal_;
  std::optional<Revocations> revoked_;
  const std::unique_ptr<ShardControl> status_;
  const std::unique_ptr<ShardControl> session_;
  const std::unique_ptr<ShardControl> job_;
};

// The status of a reply, which goes to `into` if there is one.
template <typename Reply>
absl::Status Take(absl::StatusOr<Reply> reply, Reply* into) {
  if (reply.ok()) {
    *into = *std::move(reply);
  }
  return reply.status();
}

absl::StatusOr<uint64_t> CreateJob(const CreateShardJobRequest& request, ShardGateway* shard) {
  ASSIGN_OR_RETURN(const CreateShardJobReply reply, shard->CreateJob(request));
  if (request.has_source() && !reply.from_source()) {
    // Its slice is all zeros, and nobody is going to write it.
    return absl::UnimplementedError(
        absl::StrCat("it has not made its slice from that of ", request.source().job(),
                     ", since it is of an earlier build; start all tasks from the same build"));
  }
  return reply.shard_epoch();
}

}  // namespace

ShardAnswer CarryOut(const ShardCommand& command, ShardGateway* shard) {
  ShardAnswer answer;
  switch (command.kind) {
    case ShardCommand::Kind::kCreateJob: {
      if (command.replace) {
        answer.status =
            shard->DeleteJob(command.job, command.job_term, command.term, command.call - 1);
      }
      if (answer.status.ok()) {
        const absl::StatusOr<uint64_t> created = CreateJob(command.create, shard);
        answer.status = created.status();
        answer.shard_epoch = created.ok() ? *created : 0;
      }
      break;
    }
    case ShardCommand::Kind::kDeleteJob:
      answer.status = shard->DeleteJob(command.job, command.job_term, command.term, command.call);
      break;
    case ShardCommand::Kind::kOpenSession: {
      const absl::StatusOr<OpenSessionReply> opened =
          shard->OpenSession(command.session, command.term, command.call, command.member);
      answer.status = opened.status();
      answer.session_applied = opened.ok() ? opened->applied() : 0;
      break;
    }
    case ShardCommand::Kind::kCloseSession:
      answer.status =
          Take(shard->CloseSession(command.session, command.term, command.call), &answer.closed);
      break;
    case ShardCommand::Kind::kCheckpoint:
      answer.status = shard->Checkpoint(command.checkpoint);
      break;
    case ShardCommand::Kind::kReduceRate:
      answer.status = shard->ReduceRate(command.reduce);
      break;
    case ShardCommand::Kind::kAdopt:
      answer.status = shard->Adopt(command.adopt);
      break;
    case ShardCommand::Kind::kChangeSettings: {
      ChangeSettingsReply changed;
      answer.status = Take(shard->ChangeSettings(command.settings), &changed);
      answer.version = changed.version();
      break;
    }
    case ShardCommand::Kind::kRestoreJob:
      answer.status = Take(shard->RestoreJob(command.restore), &answer.restored);
      break;
  }
  return answer;
}

std::unique_ptr<ShardGateway> MakeShardGateway(const ShardGatewayOptions& options) {
  return std::make_unique<ControlGateway>(options);
}

}  // namespace monsoon
