#include "common/transport/frame/frame_server.h"

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/logging.h"
#include "common/security/access.h"

namespace monsoon {

FrameServer::FrameServer(FrameHandler* handler, uint64_t message_memory_bytes, FaultOptions fault)
    : handler_(handler), budget_(message_memory_bytes), faults_(fault) {
  handler_->Register(&kinds_);
}

FrameServer::Admission::~Admission() {
  if (budget_ != nullptr) {
    budget_->Disconnect(kind_, member_);
  }
}

absl::StatusOr<FrameServer::Admission> FrameServer::Admit(MessageBudget::Kind kind,
                                                          const std::string& member) {
  if (const absl::Status status = budget_.Connect(kind, member); !status.ok()) {
    // A client that keeps trying must not fill the log; one that may not have
    // shared memory uses gRPC.
    if (kind == MessageBudget::Kind::kStream && refusals_.Take(Clock::Real()->Now())) {
      LOG(WARNING) << "a data stream was refused: " << status.message();
    }
    return status;
  }
  return Admission(&budget_, kind, member);
}

absl::StatusOr<SharedMapping> FrameServer::Share(const FetchRequest& request,
                                                 std::shared_ptr<const ReadCounts> counts) {
  if (faults_.enabled()) {
    return absl::FailedPreconditionError("under --fault every fetch is a frame");
  }
  return handler_->Share(request, std::move(counts));
}

bool FrameCall::Serve(std::span<const ByteChunk> frame, FrameScratch* scratch,
                      bool finite_payload) {
  if (fault_.loss == Fault::Loss::kRequest) {
    return false;
  }
  ServedFrame served = Handle(frame, scratch, finite_payload);
  if (served.first.has_value()) {
    first_ = Encode(*std::move(served.first));
  }
  more_ = std::move(served.more);
  return fault_.loss != Fault::Loss::kReply;
}

ServedFrame FrameCall::Handle(std::span<const ByteChunk> frame, FrameScratch* scratch,
                              bool finite_payload) {
  ChunkCursor cursor(frame, finite_payload);
  DataHeader request;
  absl::Status status = DecodeFrameHead(&cursor, &request);
  if (status.ok()) {
    request_id_ = request.request_id();
    const FrameKinds::Serve* const serve = server_->kinds_.Find(request);
    status = CheckFrame(scratch->caller(), request);
    if (serve == nullptr) {
      status = absl::InvalidArgumentError("the frame is no request that this server knows");
    } else if (status.ok()) {
      absl::StatusOr<ServedFrame> served = (*serve)(&request, &cursor, scratch);
      if (served.ok()) {
        return *std::move(served);
      }
      status = served.status();
    }
  }
  return {ErrorAnswer(status, VERDICT_UNSPECIFIED), nullptr};
}

FrameCall::Answer FrameCall::Encode(FrameAnswer answer) const {
  answer.header.set_request_id(request_id_);
  return {EncodeFrameHead(answer.header), std::move(answer.payload)};
}

std::optional<FrameCall::Answer> FrameCall::NextAnswer() {
  if (first_.has_value()) {
    return std::exchange(first_, std::nullopt);
  }
  if (more_ != nullptr) {
    if (std::optional<FrameAnswer> answer = more_->Next()) {
      return Encode(*std::move(answer));
    }
    more_.reset();
  }
  return std::nullopt;
}

}  // namespace monsoon
