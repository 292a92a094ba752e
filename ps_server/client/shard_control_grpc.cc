#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/transport/frame/faulty_call.h"
#include "common/transport/frame/protocol.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/reconnect.h"
#include "common/transport/grpc/status_conversion.h"
#include "proto/parameter_server.grpc.pb.h"
#include "ps_server/client/shard_control.h"

namespace monsoon {
namespace {

// A shard that names more is not in order.
constexpr int kMostJobs = 100'000;

class GrpcShardControl final : public ShardControl {
 public:
  GrpcShardControl(std::string address, absl::Duration deadline, FaultOptions fault,
                   const std::shared_ptr<Tls>& tls)
      : address_(std::move(address)),
        deadline_(deadline),
        faults_(fault),
        channel_(MakeChannel(address_, tls, Role::kPs)),
        stub_(ParameterServer::NewStub(channel_)) {}

  const std::string& address() const override { return address_; }

  absl::StatusOr<ShardStatusReply> GetStatus(const std::string& cluster,
                                             const std::optional<JournalMark>& journal,
                                             const Revocations* revoked) override {
    ShardStatusRequest request;
    if (revoked != nullptr) {
      *request.mutable_revoked() = *revoked;
    }
    if (journal.has_value()) {
      *request.mutable_journal() = *journal;
    }
    request.set_protocol_version(kProtocolVersion);
    request.set_cluster(cluster);
    ASSIGN_OR_RETURN(ShardStatusReply status, Page(request));
    while (status.more_jobs()) {
      if (status.job().empty() || status.job_size() >= kMostJobs) {
        return absl::InternalError(absl::StrCat("shard at ", address_, ": after ",
                                                status.job_size(), " jobs it says there are more"));
      }
      const ShardJobStatus& last = status.job(status.job_size() - 1);
      request.clear_revoked();
      request.set_after_job(last.job());
      request.set_after_job_term(last.job_term());
      ASSIGN_OR_RETURN(ShardStatusReply page, Page(request));
      if (page.shard_epoch() != status.shard_epoch()) {
        return absl::UnavailableError(
            absl::StrCat("shard at ", address_, ": it was started anew meanwhile"));
      }
      status.set_more_jobs(page.more_jobs() && !page.job().empty());
      status.mutable_job()->MergeFrom(page.job());
    }
    return status;
  }

  absl::StatusOr<CreateShardJobReply> CreateJob(const CreateShardJobRequest& request) override {
    return Call<CreateShardJobReply>(&ParameterServer::Stub::CreateJob, request);
  }

  absl::StatusOr<RestoreShardJobReply> RestoreJob(const RestoreShardJobRequest& request) override {
    return Call<RestoreShardJobReply>(&ParameterServer::Stub::RestoreJob, request);
  }

  absl::Status DeleteJob(const std::string& job, uint64_t job_term, uint64_t term,
                         uint64_t call) override {
    DeleteShardJobRequest request;
    request.set_call(call);
    request.set_job(job);
    request.set_job_term(job_term);
    request.set_term(term);
    return Call<DeleteShardJobReply>(&ParameterServer::Stub::DeleteJob, request).status();
  }

  absl::StatusOr<OpenSessionReply> OpenSession(const SessionKey& session, uint64_t term,
                                               uint64_t call,
                                               const MemberIdentity& member) override {
    OpenSessionRequest request;
    *request.mutable_member() = member;
    request.set_call(call);
    request.set_term(term);
    *request.mutable_session() = session;
    return Call<OpenSessionReply>(&ParameterServer::Stub::OpenSession, request);
  }

  absl::StatusOr<CloseSessionReply> CloseSession(const SessionKey& session, uint64_t term,
                                                 uint64_t call) override {
    CloseSessionRequest request;
    request.set_call(call);
    request.set_term(term);
    *request.mutable_session() = session;
    return Call<CloseSessionReply>(&ParameterServer::Stub::CloseSession, request);
  }

  absl::StatusOr<CheckpointReply> Checkpoint(const CheckpointRequest& request) override {
    return Call<CheckpointReply>(&ParameterServer::Stub::Checkpoint, request);
  }

  absl::StatusOr<ReduceRateReply> ReduceRate(const ReduceRateRequest& request) override {
    return Call<ReduceRateReply>(&ParameterServer::Stub::ReduceRate, request);
  }
  absl::StatusOr<ChangeSettingsReply> ChangeSettings(
      const ChangeSettingsRequest& request) override {
    return Call<ChangeSettingsReply>(&ParameterServer::Stub::ChangeSettings, request);
  }

  absl::StatusOr<AdoptReply> Adopt(const AdoptRequest& request) override {
    return Call<AdoptReply>(&ParameterServer::Stub::Adopt, request);
  }

  absl::StatusOr<VectorReply> Vector(const VectorRequest& request) override {
    return Call<VectorReply>(&ParameterServer::Stub::Vector, request);
  }

 private:
  absl::StatusOr<ShardStatusReply> Page(const ShardStatusRequest& request) {
    return Call<ShardStatusReply>(&ParameterServer::Stub::GetStatus, request);
  }

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Call(grpc::Status (ParameterServer::Stub::*method)(grpc::ClientContext*,
                                                                           const Request&, Reply*),
                             const Request& request) {
    Reply reply;
    const absl::Status status = CallWithFaults(&faults_, deadline_, [&] {
      grpc::ClientContext context;
      SetDeadline(&context, deadline_);
      absl::Status called = FromGrpcStatus((stub_.get()->*method)(&context, request, &reply));
      if (absl::IsUnavailable(called)) {
        KeepConnecting(channel_);
      }
      return called;
    });
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("shard at ", address_));
    }
    return reply;
  }

  const std::string address_;
  const absl::Duration deadline_;
  FaultInjector faults_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<ParameterServer::Stub> stub_;
};

}  // namespace

absl::StatusOr<RestoreShardJobReply> ShardControl::RestoreJob(const RestoreShardJobRequest&) {
  return absl::UnimplementedError("this shard control restores nothing");
}

absl::StatusOr<ReduceRateReply> ShardControl::ReduceRate(const ReduceRateRequest&) {
  return absl::UnimplementedError("this shard control reduces no rate");
}

absl::StatusOr<AdoptReply> ShardControl::Adopt(const AdoptRequest&) {
  return absl::UnimplementedError("this shard control adopts no write");
}

absl::StatusOr<ChangeSettingsReply> ShardControl::ChangeSettings(const ChangeSettingsRequest&) {
  return absl::UnimplementedError("this shard control changes no settings");
}

absl::StatusOr<VectorReply> ShardControl::Vector(const VectorRequest&) {
  return absl::UnimplementedError("this shard control has no vectors");
}

std::unique_ptr<ShardControl> ShardControl::Create(std::string address, absl::Duration deadline,
                                                   FaultOptions fault,
                                                   const std::shared_ptr<Tls>& tls) {
  return std::make_unique<GrpcShardControl>(std::move(address), deadline, fault, tls);
}

}  // namespace monsoon
