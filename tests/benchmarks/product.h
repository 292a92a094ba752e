// What the data-plane benchmarks measure: a real ps_server process, reached
// through the client library as a worker reaches it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/optimizer/optimizer.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/ps_process.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {

// Adagrad, everywhere the same.
Optimizer BenchmarkOptimizer();
std::unique_ptr<OptimizerKernel> BenchmarkKernel();

class BenchmarkShard {
 public:
  // One ps_server on a free port of localhost. As Subprocess::Start: before
  // other threads are started.
  static absl::StatusOr<std::unique_ptr<BenchmarkShard>> Start(uint32_t message_memory_mib);
  ~BenchmarkShard();

  pid_t pid() const { return server_->process.pid(); }

  // A job of `floats` parameters, a multiple of 16, written with
  // ExpectedModel's first ones.
  absl::StatusOr<TestJob> CreateJob(const std::string& name, uint64_t floats);
  absl::Status DeleteJob(const TestJob& job);
  absl::StatusOr<ShardJobStatus> JobStatus(const TestJob& job);

  // A session of worker `worker`; an older one of it ends.
  absl::StatusOr<std::unique_ptr<ParameterClient>> Join(const TestJob& job, uint32_t worker,
                                                        Transport transport);

 private:
  BenchmarkShard() = default;

  std::string directory_;
  std::unique_ptr<PsProcess> server_;
  std::unique_ptr<ShardControl> control_;
  uint64_t incarnation_ = 0;
};

}  // namespace monsoon
