// Connections: those that a server has handed to gRPC, which knows their peers by name but ends
// none of them by itself.
//
// Thread safe.
#pragma once

#include <atomic>
#include <string>

namespace monsoon {

class Connections {
 public:
  // A connection with this descriptor was handed over; gRPC closes it.
  void Note(int fd);

  // Ends the connection of the peer that gRPC calls so, as in "ipv4:10.0.0.5:41234"; false: there
  // is none. It looks at each descriptor, since nobody tells which ones gRPC has closed.
  bool Cut(const std::string& peer) const;

  // What gRPC calls the other end of a socket; "" of one without a port.
  static std::string PeerOf(int fd);

 private:
  std::atomic<int> highest_{-1};
};

}  // namespace monsoon
