// How frames travel to peers.
#pragma once

namespace monsoon {

enum class Transport {
  AUTO,           // shared memory with the peers on this host that offer it, else gRPC
  GRPC,           // gRPC only
  SHARED_MEMORY,  // shared memory only: a peer that does not offer it is an error
};

}  // namespace monsoon
