// ParameterServerService: puts a Shard on gRPC. Control RPCs are the generated
// ones; Data is a bidirectional stream of raw frames, registered by hand. One
// thread per stream answers its frames in order.
#pragma once

#include <cstdint>
#include <memory>

#include "common/rpc/fault.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"
#include "proto/parameter_server.grpc.pb.h"
#include "ps_server/in_flight.h"
#include "ps_server/shard/aligned_floats.h"
#include "ps_server/shard/shard.h"
#include "ps_server/stream_budget.h"

namespace monsoon {

class ParameterServerService final : public ParameterServer::Service {
 public:
  // `shard` outlives the service.
  ParameterServerService(Shard* shard, uint64_t message_memory_bytes, FaultOptions fault);

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

  // What is being answered right now.
  InFlight* in_flight() { return &in_flight_; }

 private:
  using DataStream = grpc::ServerReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  grpc::Status Data(grpc::ServerContext* context, DataStream* stream);
  grpc::Status ServeFrames(DataStream* stream);
  // Answers one frame. False: the stream is broken.
  bool Answer(grpc::ByteBuffer* message, AlignedFloats* scratch, DataStream* stream);
  bool AnswerFetch(const DataHeader& header, DataStream* stream);
  // Runs `serve` with the faults asked for.
  template <typename Serve>
  grpc::Status Control(Serve serve);

  Shard* const shard_;
  const uint64_t message_memory_bytes_;
  StreamBudget budget_;
  FaultInjector faults_;
  InFlight in_flight_;
};

}  // namespace monsoon
