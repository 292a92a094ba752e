#include "common/transport/grpc/reconnect.h"

#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "grpcpp/completion_queue.h"

namespace monsoon {
namespace {

// After the last call that found the peer away.
constexpr absl::Duration kKeepOn = absl::Seconds(10);
// A channel that its owner gives up goes within such a time.
constexpr absl::Duration kSlice = absl::Milliseconds(200);

// Lives as long as the process: gRPC does not shut down either (PrepareGrpc).
class Connector {
 public:
  static Connector& Get() {
    static Connector* const connector = new Connector;
    return *connector;
  }

  void Keep(const std::shared_ptr<grpc::Channel>& channel) {
    MutexLock lock(&mutex_);
    const auto [entry, is_new] = kept_.try_emplace(channel.get());
    entry->second.until = absl::Now() + kKeepOn;
    if (is_new) {
      entry->second.channel = channel;
      Watch(channel);
    }
  }

 private:
  struct Kept {
    std::weak_ptr<grpc::Channel> channel;
    absl::Time until;
  };

  Connector() {
    std::thread([this] { Run(); }).detach();
  }

  void Watch(const std::shared_ptr<grpc::Channel>& channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const gpr_timespec end = gpr_time_from_nanos(absl::ToInt64Nanoseconds(kSlice), GPR_TIMESPAN);
    channel->NotifyOnStateChange(channel->GetState(/*try_to_connect=*/false), end, &queue_,
                                 channel.get());
  }

  void Run() {
    void* tag = nullptr;
    bool changed = false;
    while (queue_.Next(&tag, &changed)) {
      std::shared_ptr<grpc::Channel> channel;  // given up, if we were the last, after the lock
      MutexLock lock(&mutex_);
      const auto entry = kept_.find(tag);
      channel = entry->second.channel.lock();
      const bool away = channel != nullptr && IsAway(channel->GetState(false));
      if (away && absl::Now() < entry->second.until) {
        Watch(channel);
      } else {
        kept_.erase(entry);
      }
    }
  }

  static bool IsAway(grpc_connectivity_state state) {
    return state == GRPC_CHANNEL_CONNECTING || state == GRPC_CHANNEL_TRANSIENT_FAILURE;
  }

  grpc::CompletionQueue queue_;
  Mutex mutex_;
  std::map<void*, Kept> kept_ ABSL_GUARDED_BY(mutex_);  // by the channel, which is the tag
};

}  // namespace

void KeepConnecting(const std::shared_ptr<grpc::Channel>& channel) {
  Connector::Get().Keep(channel);
}

}  // namespace monsoon
