#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/transport/frame/frame_codec.h"
#include "common/transport/grpc/byte_buffer.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/frame_method.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/sync_stream.h"
#include "ps_server/testing/flood.h"

namespace monsoon {
namespace {

using RawStream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

std::string EncodePush(const PushRequest& push) {
  DataHeader header;
  *header.mutable_push() = push;
  return EncodeFrameHead(header) + std::string(kMaxFramePayloadBytes, '\0');
}

}  // namespace

FloodResult Flood(const std::string& address, const PushRequest& push, uint32_t clients,
                  uint64_t total_bytes) {
  const auto frame = std::make_shared<const std::string>(EncodePush(push));
  std::atomic<uint64_t> offered{0};
  std::atomic<uint32_t> refused{0};
  std::vector<std::jthread> threads;
  for (uint32_t i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      const std::shared_ptr<grpc::Channel> channel = MakeChannel(address);
      const grpc::internal::RpcMethod method(kFrameMethod,
                                             grpc::internal::RpcMethod::BIDI_STREAMING);
      const uint64_t share = total_bytes / clients;
      uint64_t written = 0;
      while (written < share) {
        grpc::ClientContext context;
        SetDeadline(&context, absl::Seconds(60));
        const std::unique_ptr<RawStream> stream(
            grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
                channel.get(), method, &context));
        const grpc::Slice slice = MakeSlice(frame, frame->data(), frame->size());
        uint64_t taken = 0;
        while (written + taken < share && stream->Write(grpc::ByteBuffer(&slice, 1))) {
          taken += frame->size();
        }
        if (written + taken >= share) {
          context.TryCancel();
        }
        if (stream->Finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
          ++refused;
        } else {
          written += taken;  // what a refused stream took does not count
        }
      }
      offered += written;
    });
  }
  threads.clear();
  return {offered, refused};
}

}  // namespace monsoon
