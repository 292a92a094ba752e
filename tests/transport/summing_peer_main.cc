// A process that serves frames of its own kinds until SIGTERM.
//
//   summing_peer_main ADDRESS MESSAGE_MEMORY_BYTES
//
// Prints where its shared memory is, "holding" when a held request has come,
// "busy" when it is told to end while one is served, and "drained".
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "common/process/die_with_parent.h"
#include "common/process/signal_fd.h"
#include "common/transport/frame_listener.h"
#include "tests/transport/summing_peer.h"

namespace monsoon {
namespace {

constexpr absl::Duration kDrainGrace = absl::Seconds(20);

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

FramePayload MakePayload(std::span<const float> values) {
  auto floats = std::make_shared<AlignedFloats>(AlignedFloats::Uninitialized(values.size()));
  std::copy(values.begin(), values.end(), floats->data());
  return {std::move(floats), values.size_bytes()};
}

// The floats of a request, in the connection's memory.
absl::StatusOr<std::span<const float>> TakeFloats(ChunkCursor* payload, FrameScratch* scratch) {
  const size_t bytes = payload->remaining();
  if (bytes % sizeof(float) != 0) {
    return absl::InvalidArgumentError("the payload is no floats");
  }
  payload->Copy(bytes, scratch->floats()->data());
  return std::span<const float>(scratch->floats()->data(), bytes / sizeof(float));
}

class EchoAnswers final : public AnswerSource {
 public:
  explicit EchoAnswers(FramePayload payload) : payload_(std::move(payload)) {}

  std::optional<FrameAnswer> Next() override {
    const size_t size = payload_.bytes / sizeof(float);
    if (done_) {
      return std::nullopt;
    }
    const size_t end = std::min<size_t>(size, begin_ + kFloatsOfAnEcho);
    done_ = end == size;
    FrameAnswer answer;
    answer.header.mutable_peer()->set_kind(kEchoFloats);
    answer.header.mutable_peer()->set_body(done_ ? kLastEcho : "");
    answer.payload = MakePayload(payload_.floats->span().subspan(begin_, end - begin_));
    begin_ = end;
    return answer;
  }

 private:
  const FramePayload payload_;
  size_t begin_ = 0;
  bool done_ = false;
};

class SummingHandler final : public FrameHandler {
 public:
  void Register(FrameKinds* kinds) override {
    kinds->AddPeer(kSumFloats, Sum);
    kinds->AddPeer(
        kEchoFloats,
        [](DataHeader*, ChunkCursor* payload,
           FrameScratch* scratch) -> absl::StatusOr<ServedFrame> {
          const absl::StatusOr<std::span<const float>> floats = TakeFloats(payload, scratch);
          if (!floats.ok()) {
            return floats.status();
          }
          return ServedFrame{std::nullopt, std::make_unique<EchoAnswers>(MakePayload(*floats))};
        });
    kinds->AddPeer(kHoldUntilDrained,
                   [this](DataHeader* request, ChunkCursor* payload, FrameScratch* scratch) {
                     Say("holding");
                     draining_.wait(false);
                     return Sum(request, payload, scratch);
                   });
  }

  void StartDraining() {
    draining_ = true;
    draining_.notify_all();
  }

 private:
  static absl::StatusOr<ServedFrame> Sum(DataHeader* request, ChunkCursor* payload,
                                         FrameScratch* scratch) {
    const absl::StatusOr<std::span<const float>> floats = TakeFloats(payload, scratch);
    if (!floats.ok()) {
      return floats.status();
    }
    const float sum = std::accumulate(floats->begin(), floats->end(), 0.0f);
    ServedFrame served;
    FrameAnswer& answer = served.first.emplace();
    *answer.header.mutable_peer() = request->peer();
    answer.payload = MakePayload({&sum, 1});
    return served;
  }

  std::atomic<bool> draining_{false};
};

int Run(const std::string& address, uint64_t message_memory_bytes) {
  absl::StatusOr<SignalFd> signals = SignalFd::Create({SIGTERM});
  SummingHandler handler;
  FrameListener listener(&handler, {.message_memory_bytes = message_memory_bytes});
  if (!signals.ok() || !listener.Listen({.address = address}, {}).ok()) {
    return 1;
  }
  Say(listener.offer().socket() + " " + listener.offer().host());
  while (!signals->WaitFor(absl::Hours(1)).has_value()) {
  }
  if (!listener.frames()->in_flight()->WaitIdle(absl::ZeroDuration())) {
    Say("busy");
  }
  handler.StartDraining();
  listener.Drain(kDrainGrace);
  Say("drained");
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  monsoon::DieWithParent();
  uint64_t message_memory_bytes = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &message_memory_bytes)) {
    return 2;
  }
  return monsoon::Run(argv[1], message_memory_bytes);
}
