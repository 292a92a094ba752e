// CallThreads: the threads that serve the calls of many peers, one call of each peer in turn: those
// that bring the calls as long as there are few, and then some of its own.
//
// A peer can take back a call at any time and make the next one, while what it asked for is still
// being done. So neither threads nor what waits for them may grow with the calls that peers make:
// there is a bound on the threads, and one on the calls of a peer that are waiting or being
// served. Where many peers have calls, each one's share of what may wait gets smaller, and a peer
// with few calls is neither refused nor behind one with many.
//
// Thread safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace monsoon {

struct CallLimits {
  // Which serve at a time. Those of CallThreads' own come as calls need them, and stay. A
  // coordinator holds 64 questions for work.
  size_t threads = 128;
  // Of one peer, waiting and being served: twice the streams that a connection may have open, so
  // that those it has given up leave room for as many new ones.
  size_t calls_of_peer = 32;
  // Of one member, which may be some dozens of programs.
  size_t calls_of_member = 256;
  // Of all peers; a peer has room for two calls and for the largest message in any case.
  size_t calls = 4096;
  uint64_t bytes = uint64_t{64} << 20;
};

class CallThreads {
 public:
  explicit CallThreads(const CallLimits& limits = {}) : limits_(limits) {}
  // Stops.
  ~CallThreads() { Stop(); }
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Who calls: a member, whatever connections it has; else a connection over TCP, which has a name
  // of its own. Those of a Unix socket share one and have the share of all together.
  struct Peer {
    enum class Kind { kConnection, kMember, kMany };

    std::string name;
    Kind kind = Kind::kConnection;
  };

  // Has a thread of its own run `serve` when it is the peer's turn; `bytes` is what the call takes
  // until then. ResourceExhausted when the peer has its share, Unavailable after Stop; `serve` is
  // not run then.
  absl::Status Offer(const Peer& peer, uint64_t bytes, std::function<void()> serve);

  // The same, but the calling thread runs it at once if one more may serve: handing a call to
  // another thread takes longer than most calls do.
  absl::Status ServeOrOffer(const Peer& peer, uint64_t bytes, std::function<void()> serve);

  // Runs what waits, and ends the threads.
  void Stop();

 private:
  struct Work {
    uint64_t bytes;
    std::function<void()> serve;
  };
  struct Share {
    std::deque<Work> waiting;
    size_t calls = 0;  // waiting and being served
    uint64_t bytes = 0;
  };
  using Shares = std::unordered_map<std::string, Share>;

  absl::Status CheckShare(const Peer& peer, uint64_t bytes, const Share& share) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The peer's entry with one call more, or why it has no room for it.
  absl::StatusOr<Shares::value_type*> Admit(const Peer& peer, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(Shares::value_type* entry, Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A thread's loop.
  void Run();
  // Serves one call that waits.
  void ServeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without the lock meanwhile; counts it off.
  void Serve(Shares::value_type* entry, Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallLimits limits_;
  Mutex mutex_;
  CondVar changed_;  // a call waits, or the end
  Shares shares_ ABSL_GUARDED_BY(mutex_);
  // Peers that have calls waiting, each once.
  std::deque<Shares::value_type*> turns_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;  // waiting and being served
  size_t lent_ ABSL_GUARDED_BY(mutex_) = 0;   // threads of others, which serve
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace monsoon
