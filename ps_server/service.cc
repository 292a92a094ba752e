#include "ps_server/service.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/logging.h"
#include "common/rpc/byte_buffer.h"
#include "common/rpc/channel.h"
#include "common/rpc/frame_codec.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"
#include "proto/parameter_server.grpc.pb.h"
#include "ps_server/shard/aligned_floats.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard_job.h"
#include "ps_server/stream_budget.h"
#include "ps_server/vector/named_vectors.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {
namespace {

using grpc::internal::BidiStreamingHandler;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;

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

grpc::ByteBuffer HeadOnly(const DataHeader& header) {
  const grpc::Slice slice(EncodeFrameHead(header));
  return grpc::ByteBuffer(&slice, 1);
}

DataHeader ErrorHeader(uint64_t request_id, const absl::Status& status, Verdict verdict) {
  DataHeader header;
  header.set_request_id(request_id);
  header.mutable_error()->set_code(status.raw_code());
  header.mutable_error()->set_message(std::string(status.message()));
  header.mutable_error()->set_verdict(verdict);
  return header;
}

grpc::Status Lost() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost by --fault"); }

class GrpcService final : public ParameterServerService, public ParameterServer::Service {
 public:
  GrpcService(Shard* shard, uint64_t message_memory_bytes, FaultOptions fault);

  grpc::Service* service() override { return this; }
  InFlight* in_flight() override { return &in_flight_; }

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
  using DataStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  grpc::Status Data(DataStream* stream);
  grpc::Status ServeFrames(DataStream* stream);
  // Answers one frame. False: the stream is broken. No stream: the answer is
  // lost.
  bool Answer(grpc::ByteBuffer* message, AlignedFloats* scratch, DataStream* stream);
  bool AnswerFetch(const DataHeader& header, DataStream* stream);
  // A push, a contribution or a write. The result lacks the request's id.
  DataHeader AnswerUpdate(const DataHeader& request, ChunkCursor* payload, AlignedFloats* scratch);
  // Runs `serve` with the faults asked for.
  template <typename Serve>
  grpc::Status Control(Serve serve);

  Shard* const shard_;
  const uint64_t message_memory_bytes_;
  StreamBudget budget_;
  FaultInjector faults_;
  InFlight in_flight_;
  std::atomic<bool> refusal_logged_{false};
};

GrpcService::GrpcService(Shard* shard, uint64_t message_memory_bytes, FaultOptions fault)
    : shard_(shard),
      message_memory_bytes_(message_memory_bytes),
      budget_(message_memory_bytes, StreamBytes(kStreamLookaheadBytes)),
      faults_(fault) {
  // Data's messages are raw frames, which a .proto file cannot say.
  AddMethod(new RpcServiceMethod(
      "/monsoon.ParameterServer/Data", RpcMethod::BIDI_STREAMING,
      new BidiStreamingHandler<GrpcService, grpc::ByteBuffer, grpc::ByteBuffer>(
          [](GrpcService* service, grpc::ServerContext*, DataStream* stream) {
            return service->Data(stream);
          },
          this)));
}

template <typename Serve>
grpc::Status GrpcService::Control(Serve serve) {
  const InFlight::Scope scope(&in_flight_);
  Fault fault;
  if (faults_.enabled()) {
    fault = faults_.Next();
    absl::SleepFor(fault.delay);
  }
  if (fault.loss == Fault::Loss::kRequest) {
    return Lost();
  }
  const absl::Status status = serve();
  return fault.loss == Fault::Loss::kReply ? Lost() : ToGrpcStatus(status);
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
  return Control([&] { return shard_->DeleteJob(request->job()); });
}

grpc::Status GrpcService::OpenSession(grpc::ServerContext*, const OpenSessionRequest* request,
                                      OpenSessionReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<OpenSessionReply> result = shard_->OpenSession(request->session());
    if (result.ok()) {
      *reply = *std::move(result);
    }
    return result.status();
  });
}

grpc::Status GrpcService::CloseSession(grpc::ServerContext*, const CloseSessionRequest* request,
                                       CloseSessionReply* reply) {
  return Control([&]() -> absl::Status {
    absl::StatusOr<CloseSessionReply> result = shard_->CloseSession(request->session());
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

grpc::Status GrpcService::Data(DataStream* stream) {
  if (const absl::Status status = budget_.Acquire(); !status.ok()) {
    // Once: a client that keeps trying must not fill the log.
    if (!refusal_logged_.exchange(true)) {
      LOG(WARNING) << status.message();
    }
    return ToGrpcStatus(status);
  }
  const grpc::Status status = ServeFrames(stream);
  budget_.Release();
  return status;
}

grpc::Status GrpcService::ServeFrames(DataStream* stream) {
  AlignedFloats scratch;
  grpc::ByteBuffer message;
  while (stream->Read(&message)) {
    const InFlight::Scope scope(&in_flight_);
    Fault fault;
    if (faults_.enabled()) {
      fault = faults_.Next();
      absl::SleepFor(fault.delay);
    }
    if (fault.loss == Fault::Loss::kRequest) {
      return Lost();
    }
    if (fault.loss == Fault::Loss::kReply) {
      Answer(&message, &scratch, /*stream=*/nullptr);
      return Lost();
    }
    if (!Answer(&message, &scratch, stream)) {
      break;
    }
  }
  return grpc::Status::OK;
}

DataHeader GrpcService::AnswerUpdate(const DataHeader& request, ChunkCursor* payload,
                                     AlignedFloats* scratch) {
  if (scratch->size() == 0) {
    *scratch = AlignedFloats(kMaxFramePayloadBytes / sizeof(float));
  }
  DataHeader reply;
  absl::Status status;
  if (request.has_push()) {
    absl::StatusOr<PushReply> result = shard_->Push(request.push(), payload, scratch);
    status = result.status();
    if (result.ok()) {
      *reply.mutable_push_reply() = *std::move(result);
    }
  } else if (request.has_contribute()) {
    absl::StatusOr<PushReply> result = shard_->Contribute(request.contribute(), payload, scratch);
    status = result.status();
    if (result.ok()) {
      *reply.mutable_contribute_reply() = *std::move(result);
    }
  } else if (request.has_write()) {
    absl::StatusOr<WriteReply> result = shard_->Write(request.write(), payload, scratch);
    status = result.status();
    if (result.ok()) {
      *reply.mutable_write_reply() = *std::move(result);
    }
  } else {
    status = absl::InvalidArgumentError("the frame is no request that this server knows");
  }
  return status.ok() ? reply : ErrorHeader(0, status, VERDICT_UNSPECIFIED);
}

bool GrpcService::Answer(grpc::ByteBuffer* message, AlignedFloats* scratch, DataStream* stream) {
  const ReceivedFrame frame(message);
  ChunkCursor cursor(frame.chunks());
  absl::StatusOr<DataHeader> request = DecodeFrameHead(&cursor);
  if (request.ok() && request->has_fetch()) {
    return AnswerFetch(*request, stream);
  }
  DataHeader reply;
  if (request.ok()) {
    reply = AnswerUpdate(*request, &cursor, scratch);
    reply.set_request_id(request->request_id());
  } else {
    reply = ErrorHeader(0, request.status(), VERDICT_UNSPECIFIED);
  }
  return stream == nullptr || stream->Write(HeadOnly(reply));
}

bool GrpcService::AnswerFetch(const DataHeader& header, DataStream* stream) {
  const FetchRequest& request = header.fetch();
  if (stream == nullptr) {
    return true;  // a lost answer to a question without effect
  }
  const absl::StatusOr<std::shared_ptr<ShardJob>> job = shard_->StartFetch(request);
  if (!job.ok()) {
    return stream->Write(
        HeadOnly(ErrorHeader(header.request_id(), job.status(), VERDICT_UNSPECIFIED)));
  }
  // Held to the end, so that the answer is of one vector whatever happens to
  // its name.
  std::shared_ptr<const SliceVector> vector;
  if (!request.vector().empty()) {
    absl::StatusOr<std::shared_ptr<const SliceVector>> found =
        (*job)->vectors()->Find(request.vector());
    if (!found.ok()) {
      return stream->Write(
          HeadOnly(ErrorHeader(header.request_id(), found.status(), REFUSED_REQUEST)));
    }
    vector = *std::move(found);
  }
  std::optional<SessionId> session;
  if (!request.read_only()) {
    session = SessionId{request.session().worker(), request.session().incarnation()};
  }
  uint32_t next = request.first_stripe();
  const uint32_t end = next + request.stripe_count();
  while (next < end) {
    // The message owns its memory: gRPC may still send it while the next one
    // is made.
    auto payload = std::make_shared<AlignedFloats>(
        AlignedFloats::Uninitialized((*job)->FramePayloadBytes(next, end) / sizeof(float)));
    absl::StatusOr<ShardJob::Copied> copied =
        (*job)->CopyStripes(session, next, end, vector.get(), payload.get());
    if (!copied.ok()) {
      return stream->Write(
          HeadOnly(ErrorHeader(header.request_id(), copied.status(), REFUSED_SESSION)));
    }
    next += static_cast<uint32_t>(copied->records.size());
    DataHeader reply;
    reply.set_request_id(header.request_id());
    FetchReply* fetch = reply.mutable_fetch_reply();
    fetch->set_epoch((*job)->epoch());
    fetch->set_last(next == end);
    for (FetchRecord& record : copied->records) {
      *fetch->add_record() = std::move(record);
    }
    const float* data = payload->data();
    const grpc::Slice slices[] = {grpc::Slice(EncodeFrameHead(reply)),
                                  MakeSlice(std::move(payload), data, copied->bytes)};
    if (!stream->Write(grpc::ByteBuffer(slices, 2))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<ParameterServerService> ParameterServerService::Create(
    Shard* shard, uint64_t message_memory_bytes, FaultOptions fault) {
  return std::make_unique<GrpcService>(shard, message_memory_bytes, fault);
}

}  // namespace monsoon
