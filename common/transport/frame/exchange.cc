#include "common/transport/frame/exchange.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
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

// One of a peer's connections.
class Connection {
 public:
  explicit Connection(const Backoff& backoff) : backoff(backoff) {}

  bool HasRoom(size_t in_flight, absl::Duration now) const {
    return retry_at <= now && count_ < in_flight;
  }
  // Indices of requests, as they were sent.
  std::span<const size_t> unanswered() const { return {unanswered_.data(), count_}; }
  void NoteSent(size_t request) { unanswered_[count_++] = request; }
  void NoteAnswered() { std::copy_n(&unanswered_[1], --count_, unanswered_.data()); }
  void ForgetUnanswered() { count_ = 0; }

  // Since its last answer.
  bool gave_way = false;
  bool broken = false;
  absl::Duration retry_at;  // on the clock
  Backoff backoff;

 private:
  std::array<size_t, kFramesInFlight> unanswered_ = {};
  size_t count_ = 0;
};

// How far one peer's part has come.
struct PeerProgress {
  size_t next = 0;            // the first that was never sent
  std::vector<size_t> again;  // sent in vain; the first one is the last
  size_t answered = 0;
  bool broken = false;  // some connection, since the last answer
  bool left_out = false;
  absl::Duration heard;       // or asked first
  absl::Duration busy_until;  // on the clock
  absl::Status last_error;
  size_t first_connection = 0;  // of all peers'
  size_t connections = 1;
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
    for (uint32_t peer = 0; peer < requests.size(); ++peer) {
      PeerProgress& progress = progress_.emplace_back();
      progress.heard = context.clock->Now();
      progress.first_connection = connections_.size();
      progress.connections = ConnectionsTo(peer);
      for (size_t i = 0; i < progress.connections; ++i) {
        connections_.emplace_back(Backoff({.maximum = context.longest_pause}, peer));
      }
    }
  }

  absl::Status Run() {
    absl::Status status;
    while (status.ok() && !Done()) {
      status = Step();
    }
    if (!status.ok()) {
      GiveUpUnanswered();
    }
    return status;
  }

 private:
  // Where there is but one frame, others would have nothing to do.
  size_t ConnectionsTo(uint32_t peer) const {
    const size_t frames = requests_[peer].size();
    return context_.any_order && frames > 1
               ? std::min<size_t>(transport_->Connections(peer), frames)
               : 1;
  }

  std::span<Connection> ConnectionsOf(uint32_t peer) {
    return std::span(connections_)
        .subspan(progress_[peer].first_connection, progress_[peer].connections);
  }

  void GiveUpUnanswered() {
    for (uint32_t peer = 0; peer < progress_.size(); ++peer) {
      for (uint32_t i = 0; i < progress_[peer].connections; ++i) {
        if (!ConnectionsOf(peer)[i].unanswered().empty()) {
          transport_->ResetConnection(peer, i);
        }
      }
    }
  }

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
      if (!progress_[peer].left_out) {
        wait = std::min(wait, Fill(peer, now));
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
        return Repeat(event.peer, event.connection, event.status);
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

  // Sends what there is room for, neighbours by different connections. Gives when there is more to
  // do.
  absl::Duration Fill(uint32_t peer, absl::Duration now) {
    PeerProgress& progress = progress_[peer];
    if (progress.busy_until > now) {
      return progress.busy_until - now;
    }
    absl::Duration wait = absl::InfiniteDuration();
    for (size_t in_flight = 1; in_flight <= kFramesInFlight; ++in_flight) {
      for (uint32_t i = 0; i < progress.connections; ++i) {
        const Connection& connection = ConnectionsOf(peer)[i];
        // One of several that has just failed is tried with one frame, which others could take.
        const bool on_trial = connection.broken && progress.connections > 1;
        if (connection.HasRoom(on_trial ? 1 : in_flight, now)) {
          SendNext(peer, i);
        } else if (connection.retry_at > now) {
          wait = std::min(wait, connection.retry_at - now);
        }
      }
    }
    return wait;
  }

  void SendNext(uint32_t peer, uint32_t connection) {
    PeerProgress& progress = progress_[peer];
    if (progress.again.empty() && progress.next == requests_[peer].size()) {
      return;
    }
    size_t request = progress.next;
    if (progress.again.empty()) {
      ++progress.next;
    } else {
      request = progress.again.back();
      progress.again.pop_back();
    }
    Frame frame = requests_[peer][request].frame;
    frame.connection = connection;
    transport_->Send(peer, frame);
    KeepPayload(frame);  // while the peer is at what it has, and nobody waits
    ConnectionsOf(peer)[connection].NoteSent(request);
    ++counts_->frames;
    counts_->bytes += frame.size();
  }

  // The connection's unanswered requests are to be sent again, later.
  absl::Status Repeat(uint32_t peer, uint32_t index, const absl::Status& cause) {
    PeerProgress& progress = progress_[peer];
    const bool lost =
        index < progress.connections && !ConnectionsOf(peer)[index].unanswered().empty();
    if (IsRetryable(cause) && (PeerDone(peer) || !lost)) {
      return absl::OkStatus();  // the next call opens it anew
    }
    if (LeaveOut(peer, cause)) {
      return absl::OkStatus();
    }
    if (!IsRetryable(cause)) {
      return NamePeer(context_, peer, cause);
    }
    Connection& connection = ConnectionsOf(peer)[index];
    progress.again.insert(progress.again.end(), connection.unanswered().begin(),
                          connection.unanswered().end());
    std::ranges::sort(progress.again, std::greater());
    connection.ForgetUnanswered();
    if (absl::IsAborted(cause) && !std::exchange(connection.gave_way, true)) {
      return absl::OkStatus();  // its place is asked for anew at once, once an answer
    }
    connection.broken = true;
    connection.retry_at = context_.clock->Now() + connection.backoff.Next();
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
    if (!IsAsked(event, header->request_id())) {
      return NamePeer(context_, event.peer,
                      absl::InternalError(absl::StrCat(
                          "an answer to request ", header->request_id(), ", which was not asked")));
    }
    const absl::StatusOr<Answer> answer = handler_(event.peer, *header, &cursor);
    Connection& connection = ConnectionsOf(event.peer)[event.connection];
    connection.broken = false;
    if (!answer.ok()) {
      NoteAnswered(&progress, &connection);  // the stream itself is in order
      return LeaveOut(event.peer, answer.status())
                 ? absl::OkStatus()
                 : NamePeer(context_, event.peer, answer.status());
    }
    if (*answer != Answer::kBusy) {
      end_ = std::max(end_, progress.heard + context_.deadline);
    }
    if (*answer == Answer::kDone) {
      NoteAnswered(&progress, &connection);
      connection.gave_way = false;
      connection.backoff.Reset();
    } else if (*answer == Answer::kBusy) {
      transport_->ResetConnection(event.peer, event.connection);
      const absl::Status status = Repeat(event.peer, event.connection,
                                         absl::UnavailableError("the peer is busy or draining"));
      progress.busy_until = connection.retry_at;  // whichever connection asks
      return status;
    }
    return absl::OkStatus();
  }

  bool IsAsked(const FrameTransport::Event& event, uint64_t request_id) {
    const std::span<const Connection> connections = ConnectionsOf(event.peer);
    return event.connection < connections.size() &&
           !connections[event.connection].unanswered().empty() &&
           requests_[event.peer][connections[event.connection].unanswered().front()].request_id ==
               request_id;
  }

  static void NoteAnswered(PeerProgress* progress, Connection* connection) {
    connection->NoteAnswered();
    ++progress->answered;
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
  absl::InlinedVector<Connection, 8> connections_;  // of all peers, one peer's after another's
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
