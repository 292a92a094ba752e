// ChoosingTransport: shared memory with the shards that share this host, gRPC
// with the others, each chosen when its stream is opened and again after it
// broke: a shard that was started anew may have moved.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/model/shard_map.h"
#include "proto/tensor.pb.h"
#include "ps_server/client/frame_transport.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// What carries the frames of each shard, for people; one line in the log when
// it is chosen and when it changes. Thread safe.
class TransportReport {
 public:
  // `subject` begins each line.
  TransportReport(std::string subject, uint32_t shards)
      : subject_(std::move(subject)), transports_(shards) {}

  void Set(uint32_t shard, const std::string& transport);
  std::vector<std::string> Get() const;

 private:
  const std::string subject_;
  mutable Mutex mutex_;
  std::vector<std::string> transports_ ABSL_GUARDED_BY(mutex_);
};

// MONSOON_TRANSPORT: AUTO when it is unset or empty, InvalidArgument when it is
// no transport.
absl::StatusOr<Transport> TransportFromEnvironment();

class ChoosingTransport : public FrameTransport {
 public:
  // To choose, it asks the shard for its status over gRPC: Send blocks for that
  // when a stream is opened, `deadline` and a second at most. `report` outlives
  // the transport.
  static std::unique_ptr<ChoosingTransport> Create(Transport allowed,
                                                   const std::vector<std::string>& addresses,
                                                   absl::Duration deadline,
                                                   TransportReport* report);

  // Reads the parameters of `shard` from its memory, without a message, as far
  // as that goes: to their places in `parameters` (the whole vector) and in
  // `marks`, which has an entry per stripe. `left` becomes the stripes that must
  // be asked for, all of them where the shard's memory cannot be read. `request`
  // is the fetch that it stands for. Blocks like Send. Not while frames of the
  // shard are unanswered.
  virtual void Read(uint32_t shard, const FetchRequest& request, const ShardMap& map,
                    std::span<float> parameters, std::vector<StripeMark>* marks,
                    std::vector<uint32_t>* left) = 0;

  // Whether the shard's memory is mapped already: Read will not block.
  virtual bool readable(uint32_t shard) const = 0;
};

}  // namespace monsoon
