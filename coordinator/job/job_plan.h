// JobPlan: what a job needs, worked out once when it is submitted: its
// parameter vector, the slices' sizes and its data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/coordinator_state.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

struct JobPlan {
  Job job;                  // with its defaults filled in
  uint64_t parameters = 0;  // without padding
  uint64_t layout_hash = 0;
  uint64_t max_stripe_bytes = 0;
  uint64_t examples = 0;  // of the training set
  // Its data are in files that no worker has looked at yet: there is no number of examples, and
  // schedules are as they were given.
  bool awaits_data = false;
  // How many workers it is planned for. No more take part, but in an open cluster where
  // the job names no number.
  uint32_t replicas = 0;
  // Among how many replicas an outer optimizer that is not set averages (outer_optimizer.h).
  uint32_t sharers = 1;
  // Parameters, optimizer state, rows of tables, and for Sandblaster vectors and exact
  // sums in bytes, per shard (BytesOfShards).
  std::vector<uint64_t> shard_bytes;
  // Rises with each change of the job's settings while it trains; 0: they are as submitted.
  uint64_t settings_revision = 0;

  // Judges the job for this cluster. Opens no file: those of the data are as the workers see them,
  // and a job that has some awaits them. The errors are those of ValidateJob,
  // ValidateJobOnCluster and, of sets without files, DescribeDataset and ValidateJobOnData.
  static absl::StatusOr<JobPlan> Make(const Job& job, const Cluster& cluster);
  // Whether the job, as those get it who have not read its file, can run on this cluster. The
  // errors are those of ValidateJob and ValidateJobOnCluster.
  static absl::Status Judge(const Job& job, const Cluster& cluster);
  // The training set has so many samples. The errors are those of ValidateJobOnData.
  absl::Status TakeData(uint64_t found, const Cluster& cluster);

  // The job becomes `changed`, which differs in settings that may change while it trains alone
  // (coordinator/downpour/settable.h), and is valid. Schedules stay as they were worked out.
  void ChangeSettings(const Job& changed, const Cluster& cluster);

  // How it trains, one after the other.
  std::vector<Procedure> procedures() const;

  // As the durable state keeps it.
  StoredJobPlan ToStored() const;
  static JobPlan FromStored(const StoredJobPlan& stored);

  // The command that makes slice `shard` of job `id`.
  CreateShardJobRequest CreateRequest(const std::string& id, uint32_t shard,
                                      bool written_by_client) const;

 private:
  // How many take part, and among how many an outer optimizer that is not set averages.
  void CountReplicas(const Cluster& cluster);
};

}  // namespace monsoon
