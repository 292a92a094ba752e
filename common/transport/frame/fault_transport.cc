#include "common/transport/frame/fault_transport.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

namespace monsoon {
namespace {

class FaultTransport final : public FrameTransport {
 public:
  FaultTransport(std::unique_ptr<FrameTransport> base, const FaultOptions& options,
                 const Clock* clock)
      : base_(std::move(base)), faults_(options), clock_(clock) {}

  uint32_t Connections(uint32_t peer) override { return base_->Connections(peer); }

  void Send(uint32_t peer, Frame frame) override {
    const Fault fault = faults_.Next();
    delayed_.push_back({clock_->Now() + fault.delay, peer, std::move(frame), fault.loss});
  }

  Event Wait(absl::Duration timeout) override {
    const absl::Duration end = clock_->Now() + timeout;
    while (true) {
      while (!delayed_.empty() && delayed_.front().due <= clock_->Now()) {
        Delayed next = std::move(delayed_.front());
        delayed_.pop_front();
        if (next.loss == Fault::Loss::kRequest) {
          return Break(next.peer, next.frame.connection);
        }
        // Which of the answers gets lost: the one to this frame.
        losses_[{next.peer, next.frame.connection}].push_back(next.loss == Fault::Loss::kReply);
        base_->Send(next.peer, std::move(next.frame));
      }
      const absl::Duration now = clock_->Now();
      absl::Duration wait = std::max(absl::ZeroDuration(), end - now);
      if (!delayed_.empty()) {
        wait = std::min(wait, std::max(absl::ZeroDuration(), delayed_.front().due - now));
      }
      Event event = base_->Wait(wait);
      if (event.kind == Event::Kind::kTimeout) {
        if (clock_->Now() >= end) {
          return event;
        }
        continue;
      }
      std::deque<bool>& losses = losses_[{event.peer, event.connection}];
      if (event.kind == Event::Kind::kBroken) {
        Forget(event.peer, event.connection);
      } else if (!losses.empty()) {
        // An answer of several frames uses up later entries too early; which
        // answer is lost does not matter, only that some are.
        const bool lost = losses.front();
        losses.pop_front();
        if (lost) {
          return Break(event.peer, event.connection);
        }
      }
      return event;
    }
  }

  void Reset(uint32_t peer) override {
    std::erase_if(losses_, [peer](const auto& entry) { return entry.first.first == peer; });
    std::erase_if(delayed_, [peer](const Delayed& delayed) { return delayed.peer == peer; });
    base_->Reset(peer);
  }

  void ResetConnection(uint32_t peer, uint32_t connection) override {
    Forget(peer, connection);
    base_->ResetConnection(peer, connection);
  }

 private:
  struct Delayed {
    absl::Duration due;
    uint32_t peer;
    Frame frame;
    Fault::Loss loss;
  };

  void Forget(uint32_t peer, uint32_t connection) {
    losses_[{peer, connection}].clear();
    std::erase_if(delayed_, [=](const Delayed& delayed) {
      return delayed.peer == peer && delayed.frame.connection == connection;
    });
  }

  Event Break(uint32_t peer, uint32_t connection) {
    ResetConnection(peer, connection);
    Event event;
    event.kind = Event::Kind::kBroken;
    event.peer = peer;
    event.connection = connection;
    event.status = absl::UnavailableError("lost by --fault");
    return event;
  }

  const std::unique_ptr<FrameTransport> base_;
  FaultInjector faults_;
  const Clock* const clock_;
  std::deque<Delayed> delayed_;
  // By peer and connection.
  std::map<std::pair<uint32_t, uint32_t>, std::deque<bool>> losses_;
};

}  // namespace

std::unique_ptr<FrameTransport> MakeFaultTransport(std::unique_ptr<FrameTransport> base,
                                                   const FaultOptions& options,
                                                   const Clock* clock) {
  return std::make_unique<FaultTransport>(std::move(base), options, clock);
}

}  // namespace monsoon
