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

// To options.addresses; asks each shard for its shared memory. `report` outlives it.
std::unique_ptr<ChoosingTransport> MakeClientTransport(const ParameterClientOptions& options,
                                                       TransportReport* report);
// The same with options.fault.
std::unique_ptr<FrameTransport> AddClientFaults(const ParameterClientOptions& options,
                                                std::unique_ptr<FrameTransport> transport);

}  // namespace monsoon
