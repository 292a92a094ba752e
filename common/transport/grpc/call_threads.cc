#include "common/transport/grpc/call_threads.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/security/member_shares.h"

namespace monsoon {
namespace {

constexpr size_t kLeastCallsOfPeer = 2;
constexpr uint64_t kLeastBytesOfPeer = uint64_t{4} << 20;
// Every wait has an end; nothing depends on this one.
constexpr absl::Duration kIdleWait = absl::Minutes(1);

}  // namespace

absl::Status CallThreads::CheckShare(const Peer& peer, uint64_t bytes, const Share& share) const {
  const bool of_many = peer.kind == Peer::Kind::kMany;
  const size_t others = shares_.size() - 1;
  size_t calls = limits_.calls;
  if (!of_many && calls_ >= limits_.calls) {
    calls = kLeastCallsOfPeer;
  } else if (!of_many) {
    const size_t most =
        peer.kind == Peer::Kind::kMember ? limits_.calls_of_member : limits_.calls_of_peer;
    calls = MemberShares::Share({.what = "",
                                 .total = limits_.calls,
                                 .least = std::min(kLeastCallsOfPeer, most),
                                 .most = most},
                                others);
  }
  if (share.calls >= calls) {
    return absl::ResourceExhaustedError(
        absl::StrCat(peer.name, " has ", share.calls, " calls that wait or are being served, of ",
                     calls, " that it may have beside ", others, " others; make fewer at a time"));
  }
  const uint64_t room =
      of_many ? limits_.bytes
              : MemberShares::Share(
                    {.what = "", .total = limits_.bytes, .least = kLeastBytesOfPeer}, others);
  // A message of any size is served if it comes alone.
  if (share.bytes > 0 && share.bytes + bytes > room) {
    return absl::ResourceExhaustedError(
        absl::StrCat(peer.name, " has requests of ", share.bytes, " bytes that wait, of ", room,
                     " that it may have beside ", others, " others; make fewer at a time"));
  }
  return absl::OkStatus();
}

absl::StatusOr<CallThreads::Shares::value_type*> CallThreads::Admit(const Peer& peer,
                                                                    uint64_t bytes) {
  if (stopping_) {
    return absl::UnavailableError("the server is stopping");
  }
  const auto entry = shares_.try_emplace(peer.name).first;
  Share& share = entry->second;
  // A peer that is refused has other calls, so its entry is not left behind empty.
  RETURN_IF_ERROR(CheckShare(peer, bytes, share));
  ++calls_;
  ++share.calls;
  share.bytes += bytes;
  return &*entry;
}

absl::Status CallThreads::Offer(const Peer& peer, uint64_t bytes, std::function<void()> serve) {
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Shares::value_type* const entry, Admit(peer, bytes));
    Enqueue(entry, {bytes, std::move(serve)});
  }
  // Who wakes up finds the lock free.
  changed_.NotifyOne();
  return absl::OkStatus();
}

absl::Status CallThreads::ServeOrOffer(const Peer& peer, uint64_t bytes,
                                       std::function<void()> serve) {
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Shares::value_type* const entry, Admit(peer, bytes));
    if (waiting_ == 0 && threads_.size() - idle_ + lent_ < limits_.threads) {
      ++lent_;
      Serve(entry, {bytes, std::move(serve)});
      // What has come meanwhile and found no thread.
      while (waiting_ > idle_) {
        ServeNext();
      }
      --lent_;
      if (stopping_) {
        changed_.NotifyAll();
      }
      return absl::OkStatus();
    }
    Enqueue(entry, {bytes, std::move(serve)});
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

void CallThreads::Enqueue(Shares::value_type* entry, Work work) {
  Share& share = entry->second;
  if (share.waiting.empty()) {
    turns_.push_back(entry);
  }
  share.waiting.push_back(std::move(work));
  if (++waiting_ > idle_ && threads_.size() + lent_ < limits_.threads) {
    threads_.emplace_back([this] { Run(); });
  }
}

void CallThreads::Run() {
  MutexLock lock(&mutex_);
  while (true) {
    if (waiting_ > 0) {
      ServeNext();
    } else if (stopping_) {
      return;
    } else {
      ++idle_;
      changed_.WaitFor(&mutex_, kIdleWait);
      --idle_;
    }
  }
}

void CallThreads::ServeNext() {
  Shares::value_type* const entry = turns_.front();
  turns_.pop_front();
  Share& share = entry->second;
  Work work = std::move(share.waiting.front());
  share.waiting.pop_front();
  --waiting_;
  if (!share.waiting.empty()) {
    turns_.push_back(entry);
  }
  Serve(entry, std::move(work));
}

void CallThreads::Serve(Shares::value_type* entry, Work work) {
  mutex_.Unlock();
  work.serve();
  work.serve = nullptr;
  mutex_.Lock();
  Share& share = entry->second;
  --calls_;
  share.bytes -= work.bytes;
  if (--share.calls == 0) {
    shares_.erase(shares_.find(entry->first));
  }
}

void CallThreads::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads) {
    thread.join();
  }
  MutexLock lock(&mutex_);
  while (lent_ > 0) {
    changed_.WaitFor(&mutex_, kIdleWait);
  }
}

}  // namespace monsoon
