#include "common/transport/frame/exchange.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "common/base/backoff.h"
#include "common/memory/stream_copy.h"
#include "google/protobuf/arena.h"

namespace monsoon {
namespace {

// A cancellation is noticed within this time.
constexpr absl::Duration kLongestWait = absl::Milliseconds(50);

bool IsRetryable(const absl::Status& status) {
  return SaysNothingOfTheRequest(status) || absl::IsDeadlineExceeded(status);
}

// How far one peer's part has come.
struct PeerProgress {
  size_t sent = 0;
  size_t answered = 0;
  bool gave_way = false;  // since the last answer
  bool broken = false;    // since the last answer
  bool left_out = false;
  absl::Duration heard;     // or asked first
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
        looked_at_(context.clock->Now()),
        end_(looked_at_ + context.deadline) {
    for (size_t peer = 0; peer < requests.size(); ++peer) {
      progress_.push_back(
          PeerProgress{0, 0, false, false, false, context.clock->Now(), context.clock->Now(),
                       Backoff({.maximum = context.longest_pause}, peer), absl::OkStatus()});
    }
  }

  absl::Status Run() {
    absl::Status status;
    while (status.ok() && !Done()) {
      status = Step();
    }
    if (!status.ok()) {
      for (uint32_t peer = 0; peer < progress_.size(); ++peer) {
        if (progress_[peer].sent > progress_[peer].answered) {
          transport_->Reset(peer);
        }
      }
    }
    return status;
  }

 private:
  bool PeerDone(size_t peer) const {
    return progress_[peer].left_out || progress_[peer].answered == requests_[peer].size();
  }

  bool Done() const {
    for (size_t peer = 0; peer < progress_.size(); ++peer) {
      if (!PeerDone(peer)) {
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
      NoteSilent(now);
      return LeaveOutLate() ? absl::OkStatus() : DeadlineError();
    }
    LeaveOutSilent(now);
    if (context_.meanwhile != nullptr && now - looked_at_ >= kLongestWait) {
      (*context_.meanwhile)();
      looked_at_ = context_.clock->Now();
    }
    absl::Duration wait = std::min(end_ - now, kLongestWait);
    for (uint32_t peer = 0; peer < progress_.size(); ++peer) {
      if (progress_[peer].retry_at > now) {
        wait = std::min(wait, progress_[peer].retry_at - now);
      } else if (!progress_[peer].left_out) {
        Fill(peer);
      }
    }
    if (Done()) {
      return absl::OkStatus();
    }
    const FrameTransport::Event event = transport_->Wait(wait);
    switch (event.kind) {
      case FrameTransport::Event::Kind::kTimeout:
        NoteSilent(now);
        return absl::OkStatus();
      case FrameTransport::Event::Kind::kBroken:
        progress_[event.peer].broken = true;
        NoteSilent(now);
        return Repeat(event.peer, event.status);
      case FrameTransport::Event::Kind::kReceived:
        return Receive(event);
    }
    return absl::OkStatus();
  }

  bool LeaveOut(uint32_t peer, const absl::Status& why) {
    PeerProgress& progress = progress_[peer];
    if (progress.left_out) {
      return true;
    }
    if (context_.give_up == nullptr || !(*context_.give_up)(peer, why)) {
      return false;
    }
    progress.left_out = true;
    transport_->Reset(peer);
    return true;
  }

  // Those that have not answered in time; false: some must.
  bool LeaveOutLate() {
    for (uint32_t peer = 0; peer < progress_.size(); ++peer) {
      if (!PeerDone(peer) && !LeaveOut(peer, LateError(peer, context_.deadline))) {
        return false;
      }
    }
    return true;
  }

  void LeaveOutSilent(absl::Duration now) {
    if (context_.silence == absl::InfiniteDuration()) {
      return;
    }
    for (uint32_t peer = 0; peer < progress_.size(); ++peer) {
      if (!PeerDone(peer) && now - progress_[peer].heard >= context_.silence) {
        LeaveOut(peer, LateError(peer, context_.silence));
      }
    }
  }

  // A stream that has not broken since the last answer may bring what is large, slowly.
  void NoteSilent(absl::Duration now) {
    for (uint32_t peer = 0; context_.silent != nullptr && peer < progress_.size(); ++peer) {
      const absl::Duration silence = now - progress_[peer].heard;
      if (!PeerDone(peer) && (silence >= context_.deadline ||
                              (progress_[peer].broken && silence >= SilentPeer::kAfter))) {
        context_.silent->Note(peer);
        return;
      }
    }
  }

  void Fill(uint32_t peer) {
    PeerProgress& progress = progress_[peer];
    while (progress.sent < requests_[peer].size() &&
           progress.sent - progress.answered < kFramesInFlight) {
      const Frame& frame = requests_[peer][progress.sent].frame;
      transport_->Send(peer, frame);
      KeepPayload(frame);  // while the peer is at what it has, and nobody waits
      ++progress.sent;
      ++counts_->frames;
      counts_->bytes += frame.size();
    }
  }

  // The peer's unanswered requests are to be sent again, later.
  absl::Status Repeat(uint32_t peer, const absl::Status& cause) {
    PeerProgress& progress = progress_[peer];
    if (IsRetryable(cause) && PeerDone(peer)) {
      return absl::OkStatus();  // nothing is lost; the next call opens it anew
    }
    if (LeaveOut(peer, cause)) {
      return absl::OkStatus();
    }
    if (!IsRetryable(cause)) {
      return NamePeer(context_, peer, cause);
    }
    progress.sent = progress.answered;
    if (absl::IsAborted(cause) && !std::exchange(progress.gave_way, true)) {
      return absl::OkStatus();  // its place is asked for anew at once, once an answer
    }
    progress.retry_at = context_.clock->Now() + progress.backoff.Next();
    progress.last_error = cause;
    ++counts_->retries;
    if (context_.on_retry != nullptr) {
      (*context_.on_retry)(NamePeer(context_, peer, cause), counts_->retries);
    }
    return absl::OkStatus();
  }

  absl::Status Receive(const FrameTransport::Event& event) {
    PeerProgress& progress = progress_[event.peer];
    if (progress.left_out) {
      return absl::OkStatus();
    }
    progress.heard = context_.clock->Now();
    progress.broken = false;
    if (context_.silent != nullptr) {
      context_.silent->Answers(event.peer);
    }
    ChunkCursor cursor(event.frame);
    headers_.Reset();
    auto* const header = google::protobuf::Arena::CreateMessage<DataHeader>(&headers_);
    if (const absl::Status status = DecodeFrameHead(&cursor, header); !status.ok()) {
      return NamePeer(context_, event.peer, status);
    }
    if (progress.answered == progress.sent ||
        header->request_id() != requests_[event.peer][progress.answered].request_id) {
      return NamePeer(context_, event.peer,
                      absl::InternalError(absl::StrCat(
                          "an answer to request ", header->request_id(), ", which was not asked")));
    }
    const absl::StatusOr<Answer> answer = handler_(event.peer, *header, &cursor);
    if (!answer.ok()) {
      ++progress.answered;  // the stream itself is in order
      return LeaveOut(event.peer, answer.status())
                 ? absl::OkStatus()
                 : NamePeer(context_, event.peer, answer.status());
    }
    if (*answer != Answer::kBusy) {
      end_ = std::max(end_, progress.heard + context_.deadline);
    }
    if (*answer == Answer::kDone) {
      ++progress.answered;
      progress.gave_way = false;
      progress.backoff.Reset();
    } else if (*answer == Answer::kBusy) {
      transport_->Reset(event.peer);
      return Repeat(event.peer, absl::UnavailableError("the peer is busy or draining"));
    }
    return absl::OkStatus();
  }

  absl::Status DeadlineError() const {
    for (uint32_t peer = 0; peer < progress_.size(); ++peer) {
      if (PeerDone(peer)) {
        continue;
      }
      return NamePeer(context_, peer, LateError(peer, context_.deadline));
    }
    return absl::OkStatus();
  }

  absl::Status LateError(uint32_t peer, absl::Duration after) const {
    const absl::Status& cause = progress_[peer].last_error;
    return absl::DeadlineExceededError(
        absl::StrCat("no answer within ", absl::FormatDuration(after),
                     cause.ok() ? "" : "; last error: ", std::string(cause.message())));
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
  absl::Duration looked_at_;  // what else there is to do
  absl::Duration end_;
  absl::InlinedVector<PeerProgress, 8> progress_;
};

}  // namespace

void KeepPayload(const Frame& frame) {
  if (frame.keep.owner != nullptr && !std::exchange(*frame.keep.copied, true)) {
    StreamCopy(frame.payload, frame.keep.at);
  }
}

absl::Status NamePeer(const ExchangeContext& context, uint32_t peer, const absl::Status& status) {
  absl::Status named(status.code(), absl::StrCat((*context.names)[peer], ": ", status.message()));
  status.ForEachPayload([&named](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

bool SaysNothingOfTheRequest(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:  // gRPC's word for a reset stream
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kAborted:
      return true;
    default:
      return false;
  }
}

absl::Status RunExchange(const ExchangeContext& context,
                         const std::vector<std::vector<RequestFrame>>& requests,
                         FrameTransport* transport, AnswerHandler handler, ExchangeCounts* counts) {
  return Runner(context, requests, transport, handler, counts).Run();
}

}  // namespace monsoon
