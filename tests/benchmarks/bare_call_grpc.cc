#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "grpcpp/grpcpp.h"
#include "tests/benchmarks/bare_call.h"
#include "tests/benchmarks/echo.grpc.pb.h"
#include "tests/benchmarks/serve.h"

namespace monsoon {
namespace {

class EchoService final : public Echo::Service {
 public:
  grpc::Status Get(grpc::ServerContext*, const EchoRequest* request, EchoReply* reply) override {
    reply->mutable_payload()->assign(request->size(), 'm');
    return grpc::Status::OK;
  }
};

class GrpcBareCallPeer final : public BareCallPeer {
 public:
  explicit GrpcBareCallPeer(ServingProcess server)
      : server_(std::move(server)),
        stub_(Echo::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_.port),
                                                grpc::InsecureChannelCredentials()))) {}

  pid_t pid() const override { return server_.process.pid(); }

  absl::Status Call(uint32_t size) override {
    grpc::ClientContext context;
    EchoRequest request;
    request.set_size(size);
    EchoReply reply;
    const grpc::Status status = stub_->Get(&context, request, &reply);
    if (!status.ok()) {
      return absl::UnavailableError(absl::StrCat("bare call: ", status.error_message()));
    }
    if (reply.payload().size() != size) {
      return absl::DataLossError("bare call: another number of bytes");
    }
    return absl::OkStatus();
  }

 private:
  ServingProcess server_;
  std::unique_ptr<Echo::Stub> stub_;
};

}  // namespace

int ServeBareCalls() {
  EchoService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  CHECK(server != nullptr);
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}

absl::StatusOr<std::unique_ptr<BareCallPeer>> BareCallPeer::Start() {
  ASSIGN_OR_RETURN(ServingProcess server, StartServing("bare_calls"));
  return std::make_unique<GrpcBareCallPeer>(std::move(server));
}

}  // namespace monsoon
