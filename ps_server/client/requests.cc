#include "ps_server/client/requests.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/rpc/frame_codec.h"

namespace monsoon {
namespace {

void FillSession(const ParameterClientOptions& options, SessionKey* key) {
  key->set_job(options.job);
  key->set_worker(options.worker);
  key->set_incarnation(options.incarnation);
}

RequestFrame MakeFrame(DataHeader header, std::span<const std::byte> payload,
                       uint64_t* next_request_id) {
  header.set_request_id((*next_request_id)++);
  return {header.request_id(),
          {std::make_shared<const std::string>(EncodeFrameHead(header)), payload}};
}

// Stripes [first, end) of one shard that travel in one frame.
struct Group {
  uint32_t first = 0;
  uint32_t end = 0;
  Slice slice;
};

std::span<const std::byte> Part(std::span<const float> vector, const Group& group) {
  return std::as_bytes(vector.subspan(group.slice.begin, group.slice.size()));
}

// `stripe_bytes`: of the longest one.
std::vector<Group> GroupStripes(const ShardMap& map, uint32_t shard, uint64_t stripe_bytes) {
  const uint64_t fit =
      std::clamp<uint64_t>(kMaxFramePayloadBytes / stripe_bytes, 1, kMaxFrameRecords);
  std::vector<Group> groups;
  const uint32_t stripes = map.stripes(shard);
  for (uint32_t first = 0; first < stripes; first += static_cast<uint32_t>(fit)) {
    const uint32_t end = std::min<uint32_t>(stripes, first + static_cast<uint32_t>(fit));
    groups.push_back(
        {first, end, {map.stripe(shard, first).begin, map.stripe(shard, end - 1).end}});
  }
  return groups;
}

uint32_t StripeBytes(const ShardMap& map, uint32_t shard, uint32_t stripe) {
  return static_cast<uint32_t>(map.stripe(shard, stripe).size() * sizeof(float));
}

}  // namespace

ShardRequests MakePushRequests(const ParameterClientOptions& options, const PushEncoder& encoder,
                               const FetchMarks& base, uint64_t sequence,
                               uint64_t* next_request_id) {
  ShardRequests requests(options.map.shards());
  for (uint32_t shard = 0; shard < options.map.shards(); ++shard) {
    // The first stripe is as long as any.
    for (const Group& group :
         GroupStripes(options.map, shard, encoder.StripeBytes(shard, /*stripe=*/0))) {
      DataHeader header;
      PushRequest* push = header.mutable_push();
      FillSession(options, push->mutable_session());
      push->set_layout_hash(options.layout_hash);
      for (uint32_t stripe = group.first; stripe < group.end; ++stripe) {
        PushRecord* record = push->add_record();
        record->set_stripe(stripe);
        record->set_sequence(sequence);
        record->set_epoch(options.epochs[shard]);
        if (!base.shard.empty()) {
          record->set_base_epoch(base.shard[shard][stripe].epoch);
          record->set_base_version(base.shard[shard][stripe].version);
        }
        record->set_format(encoder.format());
        record->set_length(static_cast<uint32_t>(encoder.StripeBytes(shard, stripe)));
      }
      requests[shard].push_back(MakeFrame(
          std::move(header), encoder.Bytes(shard, group.first, group.end), next_request_id));
    }
  }
  return requests;
}

ShardRequests MakeContributeRequests(const ParameterClientOptions& options, uint64_t evaluation,
                                     uint32_t contribution, std::span<const float> gradient,
                                     uint64_t* next_request_id) {
  ShardRequests requests(options.map.shards());
  for (uint32_t shard = 0; shard < options.map.shards(); ++shard) {
    for (const Group& group :
         GroupStripes(options.map, shard, options.map.stripe_floats() * sizeof(float))) {
      DataHeader header;
      ContributeRequest* contribute = header.mutable_contribute();
      FillSession(options, contribute->mutable_session());
      contribute->set_layout_hash(options.layout_hash);
      contribute->set_evaluation(evaluation);
      contribute->set_contribution(contribution);
      for (uint32_t stripe = group.first; stripe < group.end; ++stripe) {
        ContributeRecord* record = contribute->add_record();
        record->set_stripe(stripe);
        record->set_epoch(options.epochs[shard]);
        record->set_length(StripeBytes(options.map, shard, stripe));
      }
      requests[shard].push_back(
          MakeFrame(std::move(header), Part(gradient, group), next_request_id));
    }
  }
  return requests;
}

FetchRequest WholeFetch(const ParameterClientOptions& options, uint32_t shard,
                        const std::string& vector, WireFormat format) {
  FetchRequest fetch;
  FillSession(options, fetch.mutable_session());
  fetch.set_layout_hash(options.layout_hash);
  fetch.set_stripe_count(options.map.stripes(shard));
  fetch.set_read_only(options.read_only);
  fetch.set_vector(vector);
  fetch.set_format(format);
  return fetch;
}

std::vector<RequestFrame> MakeFetchRequests(const FetchRequest& whole,
                                            std::span<const uint32_t> stripes,
                                            uint64_t* next_request_id) {
  std::vector<RequestFrame> requests;
  for (size_t begin = 0; begin < stripes.size();) {
    size_t end = begin + 1;
    while (end < stripes.size() && stripes[end] == stripes[end - 1] + 1) {
      ++end;
    }
    DataHeader header;
    *header.mutable_fetch() = whole;
    header.mutable_fetch()->set_first_stripe(stripes[begin]);
    header.mutable_fetch()->set_stripe_count(static_cast<uint32_t>(end - begin));
    requests.push_back(MakeFrame(std::move(header), {}, next_request_id));
    begin = end;
  }
  return requests;
}

ShardRequests MakeWriteRequests(const ParameterClientOptions& options,
                                std::span<const float> parameters, uint64_t* next_request_id) {
  ShardRequests requests(options.map.shards());
  for (uint32_t shard = 0; shard < options.map.shards(); ++shard) {
    for (const Group& group :
         GroupStripes(options.map, shard, options.map.stripe_floats() * sizeof(float))) {
      DataHeader header;
      WriteRequest* write = header.mutable_write();
      write->set_job(options.job);
      write->set_layout_hash(options.layout_hash);
      for (uint32_t stripe = group.first; stripe < group.end; ++stripe) {
        FetchRecord* record = write->add_record();
        record->set_stripe(stripe);
        record->set_length(StripeBytes(options.map, shard, stripe));
      }
      requests[shard].push_back(
          MakeFrame(std::move(header), Part(parameters, group), next_request_id));
    }
  }
  return requests;
}

}  // namespace monsoon
