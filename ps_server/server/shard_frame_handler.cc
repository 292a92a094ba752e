#include "ps_server/server/shard_frame_handler.h"

#include <optional>
#include <utility>

#include "common/base/fail_point.h"
#include "common/base/status.h"
#include "ps_server/server/session_guard.h"
#include "ps_server/shard/session_table.h"
#include "ps_server/shard/shard_job.h"
#include "ps_server/vector/named_vectors.h"
#include "ps_server/vector/vector_store.h"

namespace monsoon {
namespace {

// None: the request is for export.
std::optional<SessionId> SessionOf(const FetchRequest& request) {
  if (request.read_only()) {
    return std::nullopt;
  }
  return SessionId{request.session().worker(), request.session().incarnation()};
}

void FillReply(uint64_t shard_epoch, bool last, SliceFetches::Copied* copied, FetchReply* reply) {
  reply->set_shard_epoch(shard_epoch);
  reply->set_last(last);
  for (FetchRecord& record : copied->records) {
    *reply->add_record() = std::move(record);
  }
}

// The frames of a fetch, each copied when the connection takes it.
class FetchAnswers final : public AnswerSource {
 public:
  // `vector`: null for the parameters. Held to the end, so that the answer is of
  // one vector whatever happens to its name.
  FetchAnswers(FetchRequest request, std::shared_ptr<ShardJob> job,
               std::shared_ptr<const SliceVector> vector)
      : request_(std::move(request)),
        job_(std::move(job)),
        vector_(std::move(vector)),
        next_(request_.first_stripe()),
        end_(next_ + request_.stripe_count()) {}

  std::optional<FrameAnswer> Next() override {
    if (next_ >= end_) {
      return std::nullopt;
    }
    FrameAnswer answer = Copy();
    if (next_ >= end_) {
      job_.reset();
      vector_.reset();
    }
    return answer;
  }

 private:
  FrameAnswer Copy() {
    auto floats = std::make_shared<AlignedFloats>(AlignedFloats::Uninitialized(
        job_->fetches()->FramePayloadBytes(next_, end_) / sizeof(float)));
    absl::StatusOr<SliceFetches::Copied> copied =
        request_.changes()
            ? job_->fetches()->CopyChanges(request_, next_, end_, floats.get())
            : job_->fetches()->CopyStripes(SessionOf(request_), next_, end_, vector_.get(),
                                           request_.format(), floats.get(), request_.slot());
    if (!copied.ok()) {
      next_ = end_;
      return ErrorAnswer(copied.status(),
                         request_.read_only() ? VERDICT_UNSPECIFIED : REFUSED_SESSION);
    }
    next_ += static_cast<uint32_t>(copied->records.size());
    FrameAnswer answer;
    FillReply(job_->shard_epoch(), next_ == end_, &*copied, answer.header.mutable_fetch_reply());
    answer.payload = {std::move(floats), copied->bytes};
    return answer;
  }

  const FetchRequest request_;
  std::shared_ptr<ShardJob> job_;
  std::shared_ptr<const SliceVector> vector_;
  uint32_t next_;  // stripe
  const uint32_t end_;
};

// Serves what speaks for no session, or for the caller's own.
FrameKinds::Serve Guarded(const Shard& shard, FrameKinds::Serve serve) {
  return [&shard, serve = std::move(serve)](DataHeader* request, ChunkCursor* payload,
                                            FrameScratch* scratch) -> absl::StatusOr<ServedFrame> {
    RETURN_IF_ERROR(GuardSession(shard, scratch->caller(), request));
    return serve(request, payload, scratch);
  };
}

#ifdef MONSOON_FAIL_POINTS
// Asked for more when the answer was given to the transport.
class AfterAcknowledgement final : public AnswerSource {
 public:
  std::optional<FrameAnswer> Next() override {
    MONSOON_FAIL_POINT("push.acknowledged");
    return std::nullopt;
  }
};
#endif

}  // namespace

void ShardFrameHandler::Register(FrameKinds* kinds) {
  const auto add = [this, kinds](DataHeader::KindCase kind, FrameKinds::Serve serve) {
    kinds->Add(kind, Guarded(*shard_, std::move(serve)));
  };
  add(DataHeader::kPush, [this](DataHeader* request, ChunkCursor* payload, FrameScratch* scratch) {
    return Push(request->push(), payload, scratch);
  });
  add(DataHeader::kFetch, [this](DataHeader* request, ChunkCursor*, FrameScratch*) {
    return Fetch(request->mutable_fetch());
  });
  add(DataHeader::kContribute,
      [this](DataHeader* request, ChunkCursor* payload,
             FrameScratch* scratch) -> absl::StatusOr<ServedFrame> {
        ServedFrame served;
        ASSIGN_OR_RETURN(*served.first.emplace().header.mutable_contribute_reply(),
                         shard_->Contribute(request->contribute(), payload, scratch->floats()));
        MONSOON_FAIL_POINT("contribution.added");
        return served;
      });
  add(DataHeader::kMarks,
      [this](DataHeader* request, ChunkCursor*, FrameScratch*) -> absl::StatusOr<ServedFrame> {
        absl::StatusOr<MarksReply> marks = shard_->Marks(request->marks());
        if (!marks.ok()) {
          // Job or session are not here.
          const bool gone = !absl::IsInvalidArgument(marks.status());
          return ServedFrame{
              ErrorAnswer(marks.status(), gone ? REFUSED_SESSION : VERDICT_UNSPECIFIED), nullptr};
        }
        ServedFrame served;
        *served.first.emplace().header.mutable_marks_reply() = *std::move(marks);
        return served;
      });
  add(DataHeader::kRowPush,
      [this](DataHeader* request, ChunkCursor* payload,
             FrameScratch* scratch) -> absl::StatusOr<ServedFrame> {
        ServedFrame served;
        ASSIGN_OR_RETURN(*served.first.emplace().header.mutable_row_push_reply(),
                         shard_->PushRows(request->row_push(), payload, scratch->floats()));
        MONSOON_FAIL_POINT("rows.applied");
        return served;
      });
  add(DataHeader::kRowFetch, [this](DataHeader* request, ChunkCursor* payload, FrameScratch*) {
    return FetchRows(request->row_fetch(), payload);
  });
  add(DataHeader::kRowWrite,
      [this](DataHeader* request, ChunkCursor* payload,
             FrameScratch* scratch) -> absl::StatusOr<ServedFrame> {
        ServedFrame served;
        ASSIGN_OR_RETURN(*served.first.emplace().header.mutable_write_reply(),
                         shard_->WriteRows(request->row_write(), payload, scratch->floats()));
        return served;
      });
  add(DataHeader::kWrite, [this](DataHeader* request, ChunkCursor* payload, FrameScratch* scratch) {
    return Write(request->write(), payload, scratch);
  });
}

absl::StatusOr<SharedMapping> ShardFrameHandler::Share(const FetchRequest& request,
                                                       std::shared_ptr<const ReadCounts> counts) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, shard_->StartFetch(request));
  ASSIGN_OR_RETURN(const SliceFetches::Shared shared, job->fetches()->Share(SessionOf(request)));
  job->figures()->AddReader(std::move(counts));
  return SharedMapping{shared.fd, shared.file, shared.shape.shard_epoch, shared.slot.slot,
                       shared.slot.ticket};
}

absl::StatusOr<ServedFrame> ShardFrameHandler::Push(const PushRequest& push, ChunkCursor* payload,
                                                    FrameScratch* scratch) {
  ServedFrame served;
  FrameAnswer& answer = served.first.emplace();
  PushReply* const reply = answer.header.mutable_push_reply();
  ASSIGN_OR_RETURN(*reply, shard_->Push(push, payload, scratch->floats()));
  MONSOON_FAIL_POINT("push.applied");
#ifdef MONSOON_FAIL_POINTS
  served.more = std::make_unique<AfterAcknowledgement>();
#endif
  if (push.then_fetch()) {
    answer.payload = AddFetch(push, reply);
  }
  return served;
}

FramePayload ShardFrameHandler::AddFetch(const PushRequest& push, PushReply* reply) {
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
  if (!job.ok() ||
      !(*job)->fetches()->CheckRounds(*SessionOf(whole), 0, whole.stripe_count()).ok()) {
    return {};
  }
  const uint32_t stripes = (*job)->Describe().stripes();
  auto floats = std::make_shared<AlignedFloats>(AlignedFloats::Uninitialized(
      (*job)->fetches()->FramePayloadBytes(0, stripes) / sizeof(float)));
  absl::StatusOr<SliceFetches::Copied> copied = (*job)->fetches()->CopyStripes(
      SessionOf(whole), 0, stripes, nullptr, push.fetch_format(), floats.get());
  if (!copied.ok() || copied->records.size() != stripes) {
    return {};
  }
  FillReply((*job)->shard_epoch(), /*last=*/true, &*copied, reply->mutable_fetch());
  return {std::move(floats), copied->bytes};
}

absl::StatusOr<ServedFrame> ShardFrameHandler::Write(const WriteRequest& write,
                                                     ChunkCursor* payload, FrameScratch* scratch) {
  MONSOON_FAIL_POINT_STATUS("write.before_apply");
  absl::StatusOr<WriteReply> reply = shard_->Write(write, payload, scratch->floats());
  if (!reply.ok() && write.has_session() && !IsOpen(write.session())) {
    return ServedFrame{ErrorAnswer(reply.status(), REFUSED_SESSION), nullptr};
  }
  RETURN_IF_ERROR(reply.status());
  if (write.has_session() && write.has_seal()) {
    MONSOON_FAIL_POINT("state.sealed");
  } else if (write.has_session()) {
    MONSOON_FAIL_POINT("state.staged");
  }
  MONSOON_FAIL_POINT_STATUS("write.applied");
  if (write.has_seal()) {
    MONSOON_FAIL_POINT_STATUS("write.sealed");
  }
  ServedFrame served;
  *served.first.emplace().header.mutable_write_reply() = *std::move(reply);
  return served;
}

bool ShardFrameHandler::IsOpen(const SessionKey& session) const {
  const std::shared_ptr<ShardJob> job = shard_->FindJob(session.job(), session.job_term());
  return job != nullptr &&
         job->stripes()->at(0).HasSession({session.worker(), session.incarnation()});
}

absl::StatusOr<ServedFrame> ShardFrameHandler::FetchRows(const RowFetchRequest& fetch,
                                                         ChunkCursor* payload) {
  ServedFrame served;
  FrameAnswer& answer = served.first.emplace();
  absl::StatusOr<TableSlice::Rows> rows = shard_->FetchRows(fetch, payload);
  if (!rows.ok()) {
    const bool gone = !fetch.read_only() && !absl::IsInvalidArgument(rows.status());
    answer = ErrorAnswer(rows.status(), gone ? REFUSED_SESSION : VERDICT_UNSPECIFIED);
    return served;
  }
  RowFetchReply* const reply = answer.header.mutable_row_fetch_reply();
  reply->set_shard_epoch(shard_->shard_epoch());
  reply->set_applied_push(rows->applied_push);
  const size_t bytes = rows->values->size() * sizeof(float);
  answer.payload = {std::move(rows->values), bytes};
  return served;
}

absl::StatusOr<ServedFrame> ShardFrameHandler::Fetch(FetchRequest* fetch) {
  ASSIGN_OR_RETURN(std::shared_ptr<ShardJob> job, shard_->StartFetch(*fetch));
  if (fetch->after_round() && !fetch->read_only()) {
    const absl::Status over = job->fetches()->CheckRounds(*SessionOf(*fetch), fetch->first_stripe(),
                                                          fetch->stripe_count());
    if (!over.ok()) {
      return ServedFrame{ErrorAnswer(over, REFUSED_BUSY), nullptr};
    }
  }
  std::shared_ptr<const SliceVector> vector;
  if (!fetch->vector().empty()) {
    absl::StatusOr<std::shared_ptr<const SliceVector>> found =
        job->vectors()->Find(fetch->vector());
    if (!found.ok()) {
      return ServedFrame{ErrorAnswer(found.status(), REFUSED_REQUEST), nullptr};
    }
    vector = *std::move(found);
  }
  return ServedFrame{std::nullopt, std::make_unique<FetchAnswers>(std::move(*fetch), std::move(job),
                                                                  std::move(vector))};
}

}  // namespace monsoon
