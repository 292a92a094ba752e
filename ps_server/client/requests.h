// Cuts a parameter vector into request frames by the shard map. Pure.
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

// One fetch of everything in `format`; of the parameters if `vector` is empty.
ShardRequests MakeFetchRequests(const ParameterClientOptions& options, const std::string& vector,
                                WireFormat format, uint64_t* next_request_id);

// Writes `parameters` (map.size() floats).
ShardRequests MakeWriteRequests(const ParameterClientOptions& options,
                                std::span<const float> parameters, uint64_t* next_request_id);

}  // namespace monsoon
