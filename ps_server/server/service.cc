#include "ps_server/server/service.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "common/transport/frame/faulty_call.h"
#include "common/transport/grpc/status_conversion.h"
#include "proto/parameter_server.grpc.pb.h"

namespace monsoon {
namespace {

// Resident memory of this process, from /proc/self/statm; 0 if unknown.
uint64_t ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) {
    return 0;
  }
  unsigned long long size = 0, resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

class GrpcService final : public ParameterServerService, public ParameterServer::Service {
 public:
  GrpcService(Shard* shard, FrameServer* frames, uint64_t message_memory_bytes,
              const SharedMemoryOffer& shared_memory);

  grpc::Service* service() override { return this; }

  grpc::Status GetStatus(grpc::ServerContext* context, const ShardStatusRequest* request,
                         ShardStatusReply* reply) override;
  grpc::Status CreateJob(grpc::ServerContext* context, const CreateShardJobRequest* request,
                         CreateShardJobReply* reply) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const DeleteShardJobRequest* request,
                         DeleteShardJobReply* reply) override;
  grpc::Status OpenSession(grpc::ServerContext* context, const OpenSessionRequest* request,
                           OpenSessionReply* reply) override;
  grpc::Status CloseSession(grpc::ServerContext* context, const CloseSessionRequest* request,
                            CloseSessionReply* reply) override;
  grpc::Status Vector(grpc::ServerContext* context, const VectorRequest* request,
                      VectorReply* reply) override;

 private:
  // Runs `serve` with the faults asked for.
  template <typename Serve>
  grpc::Status Control(Serve serve);

  Shard* const shard_;
  FrameServer* const frames_;
  const uint64_t message_memory_bytes_;
  const SharedMemoryOffer shared_memory_;
};

GrpcService::GrpcService(Shard* shard, FrameServer* frames, uint64_t message_memory_bytes,
                         const SharedMemoryOffer& shared_memory)
    : shard_(shard),
      frames_(frames),
      message_memory_bytes_(message_memory_bytes),
      shared_memory_(shared_memory) {}

template <typename Serve>
grpc::Status GrpcService::Control(Serve serve) {
  const InFlight::Scope scope(frames_->in_flight());
  return ToGrpcStatus(CallWithFaults(frames_->faults(), serve));
}

grpc::Status GrpcService::GetStatus(grpc::ServerContext*, const ShardStatusRequest* request,
                                    ShardStatusReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<ShardStatusReply> result = shard_->GetStatus(*request);
    if (result.ok()) {
      *reply = *std::move(result);
      reply->set_pid(static_cast<uint32_t>(getpid()));
      reply->set_rss_bytes(ResidentBytes());
      reply->set_message_memory_bytes(message_memory_bytes_);
      if (!shared_memory_.socket().empty()) {
        *reply->mutable_shared_memory() = shared_memory_;
      }
    }
    return result.status();
  });
}

grpc::Status GrpcService::CreateJob(grpc::ServerContext*, const CreateShardJobRequest* request,
                                    CreateShardJobReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<CreateShardJobReply> result = shard_->CreateJob(*request);
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::DeleteJob(grpc::ServerContext*, const DeleteShardJobRequest* request,
                                    DeleteShardJobReply*) {
  return Control(
      [&] { return shard_->DeleteJob(request->job(), request->job_term(), request->term()); });
}

grpc::Status GrpcService::OpenSession(grpc::ServerContext*, const OpenSessionRequest* request,
                                      OpenSessionReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<OpenSessionReply> result =
        shard_->OpenSession(request->session(), request->term());
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::CloseSession(grpc::ServerContext*, const CloseSessionRequest* request,
                                       CloseSessionReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<CloseSessionReply> result =
        shard_->CloseSession(request->session(), request->term());
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::Vector(grpc::ServerContext*, const VectorRequest* request,
                                 VectorReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<VectorReply> result = shard_->Vector(*request);
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

}  // namespace

std::unique_ptr<ParameterServerService> ParameterServerService::Create(
    Shard* shard, FrameServer* frames, uint64_t message_memory_bytes,
    const SharedMemoryOffer& shared_memory) {
  return std::make_unique<GrpcService>(shard, frames, message_memory_bytes, shared_memory);
}

}  // namespace monsoon
