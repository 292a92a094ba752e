// Peers: what a process has for the groups that its replicas are in: the mailbox that serves frames
// of other members, and where these reach it. One a process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/collective/peer_mailbox.h"
#include "proto/shared_memory.pb.h"

namespace monsoon {

class Tls;

struct Peers {
  PeerMailbox* mailbox = nullptr;  // null: the process serves no frames
  // With the port it got; called once frames are served.
  std::function<std::string()> address;
  std::function<SharedMemoryOffer()> offer;
  std::shared_ptr<Tls> tls;  // as of MakeChannel
  std::string caller;        // MemberName of who it shows that this is; "": nobody
};

}  // namespace monsoon
