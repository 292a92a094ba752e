// How a client reaches its shards: names, and the transport with the faults asked for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/transport/choosing_transport.h"
#include "common/transport/frame/frame_transport.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// "ps/0", for people.
std::vector<std::string> TaskNames(uint32_t shards);
// "ps/0 at localhost:2222", for errors.
std::vector<std::string> ShardNames(const std::vector<std::string>& addresses);

// What carries a client's frames, with the faults asked for.
struct ClientTransports {
  std::unique_ptr<FrameTransport> fetch;
  std::unique_ptr<FrameTransport> push;
  // `fetch` where it can read shared memory, else null.
  ChoosingTransport* reader = nullptr;
};
// To options.addresses, and asks each shard for its shared memory; or options.make_transport's.
// `report` outlives them.
ClientTransports MakeClientTransports(const ParameterClientOptions& options,
                                      TransportReport* report);

}  // namespace monsoon
