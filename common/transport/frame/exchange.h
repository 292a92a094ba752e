// Exchange: sends each peer its request frames and collects the answers, all
// peers at once. Opens broken streams again and repeats what was not
// answered, with backoff, until nobody has answered anything for as long as the deadline:
// what takes long on a slow link is not late as long as it comes.
//
// Keeps at most kFramesInFlight unanswered frames per connection: the credits of the
// data plane. A server that gets more simply does not read them.
//
// Frames that may be served in any order are spread over the connections that the transport has to
// a peer. What one connection loses goes to whichever has room next.
//
// An exchange without trouble allocates nothing of its own for up to 8 peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/backoff.h"
#include "common/base/clock.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_transport.h"
#include "proto/tensor.pb.h"

namespace monsoon {

// Enough to keep a stream busy while an answer is on its way.
inline constexpr size_t kFramesInFlight = 2;

struct ExchangeCounts {
  uint32_t frames = 0;   // sent, repetitions included
  uint32_t retries = 0;  // broken streams and answers that asked for patience
  uint64_t bytes = 0;    // of frames sent
};

// What the answer to a request means.
enum class Answer {
  kPart,  // more frames of it come
  kDone,
  kBusy,  // to be asked again later
};

// Called for each answer frame; `payload` stands after the header. An error
// ends the exchange.
using AnswerHandler = absl::FunctionRef<absl::StatusOr<Answer>(
    uint32_t peer, const DataHeader& header, ChunkCursor* payload)>;

// Who has said nothing for long although an exchange waits for an answer: for kAfter where its
// stream breaks, otherwise for the exchange's deadline. Thread safe.
class SilentPeer {
 public:
  static constexpr absl::Duration kAfter = absl::Seconds(1);

  void Note(uint32_t peer) { peer_ = peer; }
  void Answers(uint32_t peer) { peer_.compare_exchange_strong(peer, kNone); }
  std::optional<uint32_t> Get() const {
    const uint32_t peer = peer_;
    return peer == kNone ? std::nullopt : std::make_optional(peer);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  std::atomic<uint32_t> peer_{kNone};
};

struct ExchangeContext {
  const std::vector<std::string>* names = nullptr;  // one a peer, for messages: "ps/1 at HOST:PORT"
  absl::Duration deadline;  // since the exchange began, or the last answer but a busy one's
  const std::atomic<bool>* cancelled = nullptr;
  const Clock* clock = nullptr;
  // Told why a peer's requests have to be repeated, with its name, and how often
  // that was in this exchange; may be null.
  const std::function<void(const absl::Status& why, uint32_t retries)>* on_retry = nullptr;
  // Asked when a peer's stream breaks, when its answer is an error, when it has been
  // silent for `silence`, and when time is up. True: the peer is left out from here on,
  // its stream is given up, and the exchange goes on with the others. May be null.
  const std::function<bool(uint32_t peer, const absl::Status& why)>* give_up = nullptr;
  absl::Duration silence = absl::InfiniteDuration();
  // Noted is who keeps silent, until an answer comes. May be null.
  SilentPeer* silent = nullptr;
  // Called again and again, at least every 50 ms or so, while answers are missing: what this
  // exchange waits for may wait for something else that its caller can do. May be null.
  const std::function<void()>* meanwhile = nullptr;
  // The longest pause before a request is repeated.
  absl::Duration longest_pause = BackoffOptions().maximum;
  // The peers may serve the requests in any order. False: each in the order of its list, by one
  // connection.
  bool any_order = false;
};

struct RequestFrame {
  uint64_t request_id = 0;
  Frame frame;
};

// The stream has failed, or the peer could not take it now: nobody knows what became of
// the request. Of one that is only late that is not said.
bool SaysNothingOfTheRequest(const absl::Status& status);

// Copies the payload to where it is to be kept (Frame::Keep), if nobody has.
void KeepPayload(const Frame& frame);

// `requests` has a list per peer; what was sent of them is kept (KeepPayload). After an
// error, the streams with unanswered requests have been given up.
absl::Status RunExchange(const ExchangeContext& context,
                         const std::vector<std::vector<RequestFrame>>& requests,
                         FrameTransport* transport, AnswerHandler handler, ExchangeCounts* counts);

// "NAME: message" with the peer's name; code and payloads are kept.
absl::Status NamePeer(const ExchangeContext& context, uint32_t peer, const absl::Status& status);

}  // namespace monsoon
