// Cuts a parameter vector into request frames by the shard map. Pure. The frames
// point at the vector's memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/model/shard_map.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/exchange.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/push_encoder.h"

namespace monsoon {

// Frames per shard, in the order of the stripes.
using ShardRequests = std::vector<std::vector<RequestFrame>>;

// One push of what `encoder` encoded last, under `sequence`. `base` may be
// empty. Request ids count up from `*next_request_id`.
ShardRequests MakePushRequests(const ParameterClientOptions& options, const PushEncoder& encoder,
                               const FetchMarks& base, uint64_t sequence,
                               uint64_t* next_request_id);

// One contribution's gradient (map.size() floats).
ShardRequests MakeContributeRequests(const ParameterClientOptions& options, uint64_t evaluation,
                                     uint32_t contribution, std::span<const float> gradient,
                                     uint64_t* next_request_id);

// A fetch of all stripes of `shard` in `format`; of the parameters if `vector`
// is empty.
FetchRequest WholeFetch(const ParameterClientOptions& options, uint32_t shard,
                        const std::string& vector, WireFormat format);

// Frames for those `stripes` of the shard, in ascending order, that `whole` is
// the fetch of; neighbours share a frame.
std::vector<RequestFrame> MakeFetchRequests(const FetchRequest& whole,
                                            std::span<const uint32_t> stripes,
                                            uint64_t* next_request_id);

// Writes `parameters` (map.size() floats).
ShardRequests MakeWriteRequests(const ParameterClientOptions& options,
                                std::span<const float> parameters, uint64_t* next_request_id);

}  // namespace monsoon
