// TestCluster: a whole cluster in one process: shards, a coordinator and
// workers, each with its own server on an abstract Unix socket, exchanging real
// RPCs.
//
//   TestCluster cluster({.shards = 2, .workers = 3});
//   ASSERT_OK(cluster.Start());
//   ASSERT_OK_AND_ASSIGN(std::string job, cluster.Submit(MlpJob()));
//   ASSERT_OK_AND_ASSIGN(JobDescription end, cluster.AwaitEnd(job));
//
// Thread safety: none, but for Mute.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/testing/unique_name.h"
#include "coordinator/client/job_client.h"
#include "coordinator/server/coordinator_server.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "proto/optimizer.pb.h"
#include "ps_server/server/ps_server.h"
#include "tests/cluster/poll_until.h"
#include "worker/worker.h"

namespace monsoon::testing {

class TestCluster {
 public:
  struct Options {
    int shards = 1;
    int workers = 1;           // in the cluster file
    int started_workers = -1;  // by Start; -1: all
    FaultOptions worker_fault;
    std::map<int, FaultOptions> worker_faults;  // of these workers, in its place
    uint32_t replicas = 1;                      // of each worker process
    std::function<void(int worker)> on_device_lost;
    uint32_t heartbeat_ms = 50;
    uint32_t lost_after_ms = 3000;
  };

  explicit TestCluster(const Options& options);
  ~TestCluster();

  absl::Status Start();
  absl::Status StartWorker(int worker);
  // Finishes its push and leaves.
  void DrainWorker(int worker);
  // As if the network between this worker and the coordinator were cut, in both
  // directions.
  void Mute(int worker, bool muted) { (*muted_)[worker] = muted; }

  absl::StatusOr<std::string> Submit(const Job& job);
  absl::StatusOr<JobDescription> Describe(const std::string& job);
  // Polls until `done` holds. DeadlineExceeded tells the last description.
  absl::StatusOr<JobDescription> Await(const std::string& job,
                                       const std::function<bool(const JobDescription&)>& done,
                                       absl::Duration timeout = absl::Seconds(60));
  // Until the job has ended, in any state.
  absl::StatusOr<JobDescription> AwaitEnd(const std::string& job,
                                          absl::Duration timeout = absl::Seconds(60));
  // The flat vector as the shards hold it.
  absl::StatusOr<std::vector<float>> Parameters(const std::string& job);

  const Cluster& cluster() const { return cluster_; }
  JobClient* client() { return client_.get(); }

 private:
  using Muted = std::vector<std::atomic<bool>>;

  const Options options_;
  Cluster cluster_;
  std::shared_ptr<Muted> muted_;
  std::vector<std::unique_ptr<PsServer>> shards_;
  std::unique_ptr<CoordinatorServer> coordinator_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<JobClient> client_;
};

// A small softmax regression on synthetic data: `examples` samples, blocks of
// four batches of 16, SGD.
Job SyntheticJob(uint64_t examples, double epochs);

}  // namespace monsoon::testing
