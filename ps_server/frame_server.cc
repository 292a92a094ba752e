#include "ps_server/frame_server.h"

#include <utility>

#include "common/base/logging.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {
namespace {

// Messages quote what the client sent; a header has room for so much.
constexpr size_t kLongestMessage = 1024;

DataHeader ErrorHeader(uint64_t request_id, const absl::Status& status, Verdict verdict) {
  DataHeader header;
  header.set_request_id(request_id);
  header.mutable_error()->set_code(status.raw_code());
  header.mutable_error()->set_message(Shorten(status.message(), kLongestMessage));
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

FrameServer::Answer HeadOnly(const DataHeader& header) { return {EncodeFrameHead(header), {}}; }

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

bool FrameServer::Turn::Serve(std::span<const ByteChunk> frame, AlignedFloats* scratch) {
  if (fault_.loss == Fault::Loss::kRequest) {
    return false;
  }
  ChunkCursor cursor(frame);
  absl::StatusOr<DataHeader> request = DecodeFrameHead(&cursor);
  if (!request.ok()) {
    answer_ = HeadOnly(ErrorHeader(0, request.status(), VERDICT_UNSPECIFIED));
  } else if (request->has_fetch()) {
    StartFetch(*std::move(request));
  } else {
    DataHeader reply = server_->AnswerUpdate(*request, &cursor, scratch);
    reply.set_request_id(request->request_id());
    FramePayload payload;
    if (request->push().then_fetch() && reply.has_push_reply()) {
      payload = server_->AddFetch(request->push(), reply.mutable_push_reply());
    }
    answer_ = Answer{EncodeFrameHead(reply), std::move(payload)};
  }
  return fault_.loss != Fault::Loss::kReply;
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

std::optional<FrameServer::Answer> FrameServer::Turn::NextAnswer() {
  if (answer_.has_value()) {
    return std::exchange(answer_, std::nullopt);
  }
  if (!fetch_.has_value()) {
    return std::nullopt;
  }
  Answer answer = ContinueFetch();
  if (fetch_->next >= fetch_->end) {
    fetch_.reset();
  }
  return answer;
}

void FrameServer::Turn::StartFetch(DataHeader request) {
  const FetchRequest& fetch = request.fetch();
  const uint64_t id = request.request_id();
  absl::StatusOr<std::shared_ptr<ShardJob>> job = server_->shard_->StartFetch(fetch);
  if (!job.ok()) {
    answer_ = HeadOnly(ErrorHeader(id, job.status(), VERDICT_UNSPECIFIED));
    return;
  }
  std::shared_ptr<const SliceVector> vector;
  if (!fetch.vector().empty()) {
    absl::StatusOr<std::shared_ptr<const SliceVector>> found =
        (*job)->vectors()->Find(fetch.vector());
    if (!found.ok()) {
      answer_ = HeadOnly(ErrorHeader(id, found.status(), REFUSED_REQUEST));
      return;
    }
    vector = *std::move(found);
  }
  const uint32_t first = fetch.first_stripe(), end = first + fetch.stripe_count();
  if (first < end) {
    fetch_.emplace(Fetch{std::move(request), *std::move(job), std::move(vector), first, end});
  }
}

FrameServer::Answer FrameServer::Turn::ContinueFetch() {
  ShardJob* const job = fetch_->job.get();
  auto payload = std::make_shared<AlignedFloats>(AlignedFloats::Uninitialized(
      job->FramePayloadBytes(fetch_->next, fetch_->end) / sizeof(float)));
  absl::StatusOr<ShardJob::Copied> copied =
      job->CopyStripes(SessionOf(fetch_->request.fetch()), fetch_->next, fetch_->end,
                       fetch_->vector.get(), fetch_->request.fetch().format(), payload.get());
  if (!copied.ok()) {
    fetch_->next = fetch_->end;
    return HeadOnly(ErrorHeader(fetch_->request.request_id(), copied.status(), REFUSED_SESSION));
  }
  fetch_->next += static_cast<uint32_t>(copied->records.size());
  DataHeader reply;
  reply.set_request_id(fetch_->request.request_id());
  FetchReply* fetch = reply.mutable_fetch_reply();
  fetch->set_epoch(job->epoch());
  fetch->set_last(fetch_->next == fetch_->end);
  for (FetchRecord& record : copied->records) {
    *fetch->add_record() = std::move(record);
  }
  return {EncodeFrameHead(reply), {std::move(payload), copied->bytes}};
}

}  // namespace monsoon
