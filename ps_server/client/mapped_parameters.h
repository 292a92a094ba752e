// Reads a shard's parameters from its memory, without a message, where the
// transport can map it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/shard_map.h"
#include "common/transport/choosing_transport.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

bool AllAreMapped(const ChoosingTransport& transport, uint32_t shards);

// Reads as far as that goes: the parameters of `shard` to their places in
// `parameters` (the whole vector) and in `marks`, which has an entry per stripe.
// `left` becomes the stripes that must be asked for, all of them where the
// shard's memory cannot be read. `request` is the fetch that it stands for.
// Blocks like ChoosingTransport::Map. Not while frames of the shard are
// unanswered.
void ReadMappedParameters(ChoosingTransport* transport, uint32_t shard, const FetchRequest& request,
                          const ShardMap& map, std::span<float> parameters,
                          std::vector<StripeMark>* marks, std::vector<uint32_t>* left);

}  // namespace monsoon
