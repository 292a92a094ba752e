// Connections: those that a server has handed to gRPC, which knows their peers by name but ends
// none of them by itself; and who may have how many.
//
// Of connections over TLS those that have yet to prove themselves have bounds (newcomers.h). A
// connection is a member's from the first call on that is let in. A member may have an equal share
// of half of the process's descriptors, as if one member more were there; and one that was cut off
// again and again for calls in vain gets in again only after a while.
//
// Thread safe.
#pragma once

#include <atomic>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/log_limit.h"
#include "common/base/mutex.h"
#include "common/security/member_shares.h"
#include "common/transport/grpc/conduct.h"
#include "common/transport/grpc/newcomers.h"

namespace monsoon {

class Connections {
 public:
  // Cuts a minute that are forgotten, and how many may be remembered; then a member is shut out.
  static constexpr double kCutsForgotten = 2;
  static constexpr double kMostCuts = 4;
  static constexpr absl::Duration kShutOut = absl::Seconds(30);

  // Of a process that may have so many descriptors.
  explicit Connections(size_t files);
  Connections();  // of this one

  // A connection with this descriptor is handed over; gRPC closes it.
  void Note(int fd);
  // The same of one over TLS. False: it is not to be handed over, since too many came from there.
  // It cuts off those that it displaces.
  bool NoteNewcomer(int fd, absl::Duration now);

  // `member` (QuotaName) was let in on the connection of `peer`, with each of its calls.
  // ResourceExhausted where it has its share of connections, or is shut out.
  absl::Status NoteMember(const std::string& peer, const std::string& member, absl::Duration now);

  // Ends the connection of the peer that gRPC calls so, as in "ipv4:10.0.0.5:41234"; false: there
  // is none. It looks at each descriptor, since nobody tells which ones gRPC has closed.
  bool Cut(const std::string& peer) const;
  // The connection of `peer` is cut off for bad conduct. Whose are again and again is shut out: the
  // member, or where it has not proved to be one, its address. `cuts`: for how many it stands.
  void NoteCut(const std::string& peer, absl::Duration now, double cuts = 1);

  // What gRPC calls the other end of a socket; "" of one without a port.
  static std::string PeerOf(int fd);

 private:
  struct Known {
    int fd = -1;
    std::string member;  // "": a newcomer
  };

  // Forgets connections that have ended, those with this descriptor in any case.
  void Forget(int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::atomic<int> highest_{-1};
  Mutex mutex_;
  Newcomers newcomers_ ABSL_GUARDED_BY(mutex_);
  MemberShares shares_ ABSL_GUARDED_BY(mutex_);
  Conduct cuts_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, absl::Duration> shut_out_ ABSL_GUARDED_BY(mutex_);  // until
  absl::flat_hash_map<std::string, Known> known_ ABSL_GUARDED_BY(mutex_);              // by peer
  absl::flat_hash_map<int, std::string> peers_ ABSL_GUARDED_BY(mutex_);  // by descriptor
  LogLimit floods_;
};

}  // namespace monsoon
