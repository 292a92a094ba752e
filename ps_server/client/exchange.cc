#include "ps_server/client/exchange.h"

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/retry.h"
#include "google/protobuf/arena.h"

namespace monsoon {
namespace {

// A cancellation is noticed within this time.
constexpr absl::Duration kLongestWait = absl::Milliseconds(50);

bool IsRetryable(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:  // gRPC's word for a reset stream
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    default:
      return false;
  }
}

// One shard's part.
struct Lane {
  size_t sent = 0;
  size_t answered = 0;
  absl::Duration retry_at;  // on the clock
  Backoff backoff;
  absl::Status last_error;
};

class Runner {
 public:
  Runner(const ExchangeContext& context, const std::vector<std::vector<RequestFrame>>& requests,
         FrameTransport* transport, AnswerHandler handler, ExchangeCounts* counts)
      : headers_(ArenaOptions(&headers_memory_)),
        context_(context),
        requests_(requests),
        transport_(transport),
        handler_(handler),
        counts_(counts),
        end_(context.clock->Now() + context.deadline) {
    for (size_t shard = 0; shard < requests.size(); ++shard) {
      lanes_.push_back(Lane{0, 0, context.clock->Now(), Backoff({}, shard), absl::OkStatus()});
    }
  }

  absl::Status Run() {
    absl::Status status;
    while (status.ok() && !Done()) {
      status = Step();
    }
    if (!status.ok()) {
      for (uint32_t shard = 0; shard < lanes_.size(); ++shard) {
        if (lanes_[shard].sent > lanes_[shard].answered) {
          transport_->Reset(shard);
        }
      }
    }
    return status;
  }

 private:
  bool LaneDone(size_t shard) const { return lanes_[shard].answered == requests_[shard].size(); }

  bool Done() const {
    for (size_t shard = 0; shard < lanes_.size(); ++shard) {
      if (!LaneDone(shard)) {
        return false;
      }
    }
    return true;
  }

  absl::Status Step() {
    const absl::Duration now = context_.clock->Now();
    if (context_.cancelled->load()) {
      return absl::CancelledError("cancelled");
    }
    if (now >= end_) {
      return DeadlineError();
    }
    absl::Duration wait = std::min(end_ - now, kLongestWait);
    for (uint32_t shard = 0; shard < lanes_.size(); ++shard) {
      if (lanes_[shard].retry_at > now) {
        wait = std::min(wait, lanes_[shard].retry_at - now);
      } else {
        Fill(shard);
      }
    }
    const FrameTransport::Event event = transport_->Wait(wait);
    switch (event.kind) {
      case FrameTransport::Event::Kind::kTimeout:
        return absl::OkStatus();
      case FrameTransport::Event::Kind::kBroken:
        return Repeat(event.shard, event.status);
      case FrameTransport::Event::Kind::kReceived:
        return Receive(event);
    }
    return absl::OkStatus();
  }

  void Fill(uint32_t shard) {
    Lane& lane = lanes_[shard];
    while (lane.sent < requests_[shard].size() && lane.sent - lane.answered < kFramesInFlight) {
      const Frame& frame = requests_[shard][lane.sent].frame;
      transport_->Send(shard, frame);
      ++lane.sent;
      ++counts_->frames;
      counts_->bytes += frame.size();
    }
  }

  // The shard's unanswered requests are to be sent again, later.
  absl::Status Repeat(uint32_t shard, const absl::Status& cause) {
    if (!IsRetryable(cause)) {
      return NameShard(context_, shard, cause);
    }
    Lane& lane = lanes_[shard];
    if (LaneDone(shard)) {
      return absl::OkStatus();  // nothing is lost; the next call opens it anew
    }
    lane.sent = lane.answered;
    lane.retry_at = context_.clock->Now() + lane.backoff.Next();
    lane.last_error = cause;
    ++counts_->retries;
    return absl::OkStatus();
  }

  absl::Status Receive(const FrameTransport::Event& event) {
    Lane& lane = lanes_[event.shard];
    ChunkCursor cursor(event.frame);
    headers_.Reset();
    auto* const header = google::protobuf::Arena::CreateMessage<DataHeader>(&headers_);
    if (const absl::Status status = DecodeFrameHead(&cursor, header); !status.ok()) {
      return NameShard(context_, event.shard, status);
    }
    if (lane.answered == lane.sent ||
        header->request_id() != requests_[event.shard][lane.answered].request_id) {
      return NameShard(
          context_, event.shard,
          absl::InternalError(absl::StrCat("an answer to request ", header->request_id(),
                                           ", which was not asked")));
    }
    const absl::StatusOr<Answer> answer = handler_(event.shard, *header, &cursor);
    if (!answer.ok()) {
      ++lane.answered;  // the stream itself is in order
      return NameShard(context_, event.shard, answer.status());
    }
    if (*answer == Answer::kDone) {
      ++lane.answered;
      lane.backoff.Reset();
    } else if (*answer == Answer::kBusy) {
      transport_->Reset(event.shard);
      return Repeat(event.shard, absl::UnavailableError("the shard is busy or draining"));
    }
    return absl::OkStatus();
  }

  absl::Status DeadlineError() const {
    for (uint32_t shard = 0; shard < lanes_.size(); ++shard) {
      if (LaneDone(shard)) {
        continue;
      }
      const absl::Status& cause = lanes_[shard].last_error;
      return NameShard(context_, shard,
                       absl::DeadlineExceededError(absl::StrCat(
                           "no answer within ", absl::FormatDuration(context_.deadline),
                           cause.ok() ? "" : "; last error: ", std::string(cause.message()))));
    }
    return absl::OkStatus();
  }

  // Of answers, one at a time.
  using HeadersMemory = std::array<char, 4096>;
  static google::protobuf::ArenaOptions ArenaOptions(HeadersMemory* memory) {
    google::protobuf::ArenaOptions options;
    options.initial_block = memory->data();
    options.initial_block_size = memory->size();
    return options;
  }

  alignas(8) HeadersMemory headers_memory_;
  google::protobuf::Arena headers_;
  const ExchangeContext& context_;
  const std::vector<std::vector<RequestFrame>>& requests_;
  FrameTransport* const transport_;
  const AnswerHandler handler_;
  ExchangeCounts* const counts_;
  const absl::Duration end_;
  absl::InlinedVector<Lane, 8> lanes_;
};

}  // namespace

absl::Status NameShard(const ExchangeContext& context, uint32_t shard, const absl::Status& status) {
  absl::Status named(status.code(), absl::StrCat("ps/", shard, " at ", (*context.addresses)[shard],
                                                 ": ", status.message()));
  status.ForEachPayload([&named](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

absl::Status RunExchange(const ExchangeContext& context,
                         const std::vector<std::vector<RequestFrame>>& requests,
                         FrameTransport* transport, AnswerHandler handler, ExchangeCounts* counts) {
  return Runner(context, requests, transport, handler, counts).Run();
}

}  // namespace monsoon
