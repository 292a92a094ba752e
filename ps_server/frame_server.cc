#include "ps_server/frame_server.h"

#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/vector/named_vectors.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {
namespace {

DataHeader ErrorHeader(uint64_t request_id, const absl::Status& status, Verdict verdict) {
  DataHeader header;
  header.set_request_id(request_id);
  header.mutable_error()->set_code(status.raw_code());
  header.mutable_error()->set_message(std::string(status.message()));
  header.mutable_error()->set_verdict(verdict);
  return header;
}

// None: the request is for export.
std::optional<SessionId> SessionOf(const FetchRequest& request) {
  if (request.read_only()) {
    return std::nullopt;
  }
  return SessionId{request.session().worker(), request.session().incarnation()};
}

bool WriteHead(const DataHeader& header, FrameServer::Writer* writer) {
  return writer->Write(EncodeFrameHead(header), {});
}

}  // namespace

FrameServer::FrameServer(Shard* shard, uint64_t message_memory_bytes, uint64_t lookahead_bytes,
                         FaultOptions fault)
    : shard_(shard), budget_(message_memory_bytes, StreamBytes(lookahead_bytes)), faults_(fault) {}

FrameServer::Admission::~Admission() {
  if (budget_ != nullptr) {
    budget_->Release();
  }
}

absl::StatusOr<FrameServer::Admission> FrameServer::Admit() {
  if (const absl::Status status = budget_.Acquire(); !status.ok()) {
    // Once: a client that keeps trying must not fill the log.
    if (!refusal_logged_.exchange(true)) {
      LOG(WARNING) << status.message();
    }
    return status;
  }
  return Admission(&budget_);
}

FrameServer::Outcome FrameServer::Serve(std::span<const ByteChunk> frame, AlignedFloats* scratch,
                                        Writer* writer) {
  const InFlight::Scope scope(&in_flight_);
  Fault fault;
  if (faults_.enabled()) {
    fault = faults_.Next();
    absl::SleepFor(fault.delay);
  }
  if (fault.loss == Fault::Loss::kRequest) {
    return Outcome::kLost;
  }
  if (fault.loss == Fault::Loss::kReply) {
    Answer(frame, scratch, /*writer=*/nullptr);
    return Outcome::kLost;
  }
  return Answer(frame, scratch, writer) ? Outcome::kServed : Outcome::kBroken;
}

absl::StatusOr<FrameServer::SharedJob> FrameServer::Share(const FetchRequest& request) {
  if (faults_.enabled()) {
    return absl::FailedPreconditionError("under --fault every fetch is a frame");
  }
  SharedJob result;
  ASSIGN_OR_RETURN(result.job, shard_->StartFetch(request));
  ASSIGN_OR_RETURN(result.shared, result.job->Share(SessionOf(request)));
  return result;
}

DataHeader FrameServer::AnswerUpdate(const DataHeader& request, ChunkCursor* payload,
                                     AlignedFloats* scratch) {
  if (scratch->size() == 0) {
    *scratch = AlignedFloats::Uninitialized(kMaxFramePayloadBytes / sizeof(float));
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

bool FrameServer::Answer(std::span<const ByteChunk> frame, AlignedFloats* scratch, Writer* writer) {
  ChunkCursor cursor(frame);
  absl::StatusOr<DataHeader> request = DecodeFrameHead(&cursor);
  if (request.ok() && request->has_fetch()) {
    // A lost answer to a question without effect needs no work.
    return writer == nullptr || AnswerFetch(*request, writer);
  }
  DataHeader reply;
  FramePayload payload;
  if (request.ok()) {
    reply = AnswerUpdate(*request, &cursor, scratch);
    reply.set_request_id(request->request_id());
    if (request->push().then_fetch() && reply.has_push_reply() && writer != nullptr) {
      payload = AddFetch(request->push(), reply.mutable_push_reply());
    }
  } else {
    reply = ErrorHeader(0, request.status(), VERDICT_UNSPECIFIED);
  }
  return writer == nullptr || writer->Write(EncodeFrameHead(reply), std::move(payload));
}

FramePayload FrameServer::AddFetch(const PushRequest& push, PushReply* reply) {
  for (const PushVerdict& verdict : reply->verdict()) {
    if (verdict.verdict() != APPLIED && verdict.verdict() != DUPLICATE) {
      return {};
    }
  }
  FetchRequest whole;
  *whole.mutable_session() = push.session();
  whole.set_layout_hash(push.layout_hash());
  whole.set_format(push.fetch_format());
  whole.set_stripe_count(static_cast<uint32_t>(push.record_size()));
  const absl::StatusOr<std::shared_ptr<ShardJob>> job = shard_->StartFetch(whole);
  if (!job.ok()) {
    return {};
  }
  const uint32_t stripes = (*job)->Describe().stripes();
  auto floats = std::make_shared<AlignedFloats>(
      AlignedFloats::Uninitialized((*job)->FramePayloadBytes(0, stripes) / sizeof(float)));
  absl::StatusOr<ShardJob::Copied> copied =
      (*job)->CopyStripes(SessionOf(whole), 0, stripes, nullptr, push.fetch_format(), floats.get());
  if (!copied.ok() || copied->records.size() != stripes) {
    return {};
  }
  FetchReply* fetch = reply->mutable_fetch();
  fetch->set_epoch((*job)->epoch());
  fetch->set_last(true);
  for (FetchRecord& record : copied->records) {
    *fetch->add_record() = std::move(record);
  }
  return {std::move(floats), copied->bytes};
}

bool FrameServer::AnswerFetch(const DataHeader& header, Writer* writer) {
  const FetchRequest& request = header.fetch();
  const absl::StatusOr<std::shared_ptr<ShardJob>> job = shard_->StartFetch(request);
  if (!job.ok()) {
    return WriteHead(ErrorHeader(header.request_id(), job.status(), VERDICT_UNSPECIFIED), writer);
  }
  // Held to the end, so that the answer is of one vector whatever happens to
  // its name.
  std::shared_ptr<const SliceVector> vector;
  if (!request.vector().empty()) {
    absl::StatusOr<std::shared_ptr<const SliceVector>> found =
        (*job)->vectors()->Find(request.vector());
    if (!found.ok()) {
      return WriteHead(ErrorHeader(header.request_id(), found.status(), REFUSED_REQUEST), writer);
    }
    vector = *std::move(found);
  }
  const std::optional<SessionId> session = SessionOf(request);
  uint32_t next = request.first_stripe();
  const uint32_t end = next + request.stripe_count();
  while (next < end) {
    auto payload = std::make_shared<AlignedFloats>(
        AlignedFloats::Uninitialized((*job)->FramePayloadBytes(next, end) / sizeof(float)));
    absl::StatusOr<ShardJob::Copied> copied =
        (*job)->CopyStripes(session, next, end, vector.get(), request.format(), payload.get());
    if (!copied.ok()) {
      return WriteHead(ErrorHeader(header.request_id(), copied.status(), REFUSED_SESSION), writer);
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
    if (!writer->Write(EncodeFrameHead(reply), {std::move(payload), copied->bytes})) {
      return false;
    }
  }
  return true;
}

}  // namespace monsoon
