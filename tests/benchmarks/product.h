// What the data-plane benchmarks measure: a real ps_server process, reached
// through the client library as a worker reaches it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/optimizer/optimizer.h"
#include "common/security/testing/members.h"
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
  // other threads are started. `tls`: both ends prove themselves, as members of a cluster.
  static absl::StatusOr<std::unique_ptr<BenchmarkShard>> Start(uint32_t message_memory_mib,
                                                               bool tls = false);
  ~BenchmarkShard();

  pid_t pid() const { return server_->process.pid(); }

  // A job of `floats` parameters, a multiple of 16, written with
  // ExpectedModel's first ones.
  absl::StatusOr<TestJob> CreateJob(const std::string& name, uint64_t floats);
  absl::Status DeleteJob(const TestJob& job);
  absl::StatusOr<ShardJobStatus> JobStatus(const TestJob& job);

  // A session of worker `worker`; an older one of it ends. `connections`: as of
  // ParameterClientOptions.
  absl::StatusOr<std::unique_ptr<ParameterClient>> Join(const TestJob& job, uint32_t worker,
                                                        Transport transport,
                                                        uint32_t connections = 1);

 private:
  BenchmarkShard() = default;

  // Null without TLS.
  absl::StatusOr<std::shared_ptr<Tls>> TlsOf(Role role) const;
  // What every client of a job says.
  absl::StatusOr<ParameterClientOptions> ClientOptions(const TestJob& job) const;

  std::optional<testing::TestAuthority> authority_;
  std::string directory_;
  std::unique_ptr<PsProcess> server_;
  std::unique_ptr<ShardControl> control_;
  uint64_t incarnation_ = 0;
};

}  // namespace monsoon
