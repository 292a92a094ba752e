// The cluster and the jobs of core_fuzz.
#pragma once

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/tensor.pb.h"

namespace monsoon {

inline constexpr uint32_t kShards = 2;
inline constexpr uint32_t kWorkers = 2;
// A job's blocks are kept one by one.
inline constexpr uint64_t kMostExamples = 1000;

// What the tests of a whole coordinator have of a worker.
struct FuzzedWorker {
  uint64_t incarnation = 0;
  uint64_t term = 0;
  SessionKey session;
  uint64_t request = 0;
  NextWorkReply told;
};

inline constexpr char kDownpour[] = R"(
  name: "j"
  model { input_shape: 4 layer { dense { units: 2 } } }
  train { synthetic { examples: 40 classes: 2 } }
  test { synthetic { examples: 10 classes: 2 } }
  batch_size: 5
  block_examples: 10
  downpour { optimizer { sgd { rate: 0.1 } } }
  checkpoint { every_seconds: 1 }
  stop { epochs: 2 }
)";
inline constexpr char kSandblaster[] = R"(
  name: "s"
  model { input_shape: 4 layer { dense { units: 2 } } }
  train { synthetic { examples: 40 classes: 2 } }
  batch_size: 5
  sandblaster { max_iterations: 3 }
  checkpoint { every_seconds: 1 }
)";
inline constexpr char kJoined[] = R"(
  name: "p"
  model { tensor { name: "w" shape: 40 } }
  train { joiners { examples: 40 } }
  test { joiners { } }
  batch_size: 5
  block_examples: 10
  downpour { optimizer { sgd { rate: 0.1 } } }
  checkpoint { every_seconds: 1 }
  stop { epochs: 2 }
)";

inline Cluster MakeCluster() {
  Cluster cluster;
  cluster.set_name("c");
  cluster.mutable_coordinator()->set_address("unix:c");
  for (uint32_t i = 0; i < kShards; ++i) {
    cluster.add_ps()->set_address(absl::StrCat("unix:ps", i));
    cluster.mutable_ps(static_cast<int>(i))->set_memory_limit_mib(1);
  }
  for (uint32_t i = 0; i < kWorkers; ++i) {
    cluster.add_worker()->set_address(absl::StrCat("unix:w", i));
  }
  cluster.set_open(true);
  cluster.set_heartbeat_ms(500);
  cluster.set_lost_after_ms(3000);
  cluster.set_ps_lost_after_ms(30000);
  cluster.set_rpc_deadline_ms(10000);
  cluster.set_worker_wait_ms(60000);
  return cluster;
}

}  // namespace monsoon
