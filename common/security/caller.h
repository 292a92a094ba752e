// Caller: who makes a call, as far as the call's connection proves it.
//
// A plain value.
#pragma once

#include <optional>
#include <string>

#include "common/security/certificate.h"

namespace monsoon {

struct Caller {
  // The other end as gRPC calls it, for people and for what is counted by address:
  // "ipv4:10.0.0.5:41234".
  std::string address;
  // The server asks nobody who he is (--insecure): all may do everything.
  bool open = false;
  // Whose certificate the connection has proved, verified now. None on a server that is not open:
  // somebody who has yet to join.
  std::optional<Peer> member;
};

// Under which what a caller holds is counted: "worker/7", else the address of who shows no
// certificate. "" of this machine's user, who came by a Unix socket: nothing is counted.
std::string QuotaName(const Caller& caller);

}  // namespace monsoon
