// What the coordinator's state machine wants a shard to do. The driver carries
// commands out, in order per shard, and brings each result back.
#pragma once

#include <cstdint>
#include <string>

#include "proto/parameter_server.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

struct ShardCommand {
  enum class Kind { kCreateJob, kDeleteJob, kOpenSession, kCloseSession };
  Kind kind = Kind::kCreateJob;
  uint32_t shard = 0;
  std::string job;
  SessionKey session;            // kOpenSession, kCloseSession
  CreateShardJobRequest create;  // kCreateJob
  // kCreateJob: the shard holds a slice of this name, perhaps with parameters
  // of an earlier coordinator's job. It is deleted first.
  bool replace = false;
};

}  // namespace monsoon
