#include "coordinator/job/job_plan.h"

#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/config/job.h"
#include "common/config/schedule_shares.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/optimizer/optimizer_kinds.h"
#include "coordinator/job/outer_optimizer.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

// Of the first `workers` that the cluster lists, and of as many guests as are missing.
Trainers TrainersOf(uint32_t workers, const Cluster& cluster) {
  double replicas = 0;
  for (uint32_t i = 0; i < workers; ++i) {
    const bool listed = i < static_cast<uint32_t>(cluster.worker_size());
    replicas += listed ? std::max(1u, cluster.worker(static_cast<int>(i)).replicas()) : 1;
  }
  return {.workers = workers, .replicas = replicas / std::max(1u, workers)};
}

// Of the mean of a step of so many gradients.
void ScaleRate(const Synchronous& synchronous, uint32_t workers, Optimizer* optimizer) {
  const double k = std::max(1u, workers - std::min(workers, synchronous.backup_workers()));
  switch (synchronous.scale_rate()) {
    case Synchronous::LINEAR:
      SetRate(RateOf(*optimizer) * k, optimizer);
      break;
    case Synchronous::SQRT:
      SetRate(RateOf(*optimizer) * std::sqrt(k), optimizer);
      break;
    default:
      break;
  }
}

}  // namespace

absl::StatusOr<JobPlan> JobPlan::Make(const Job& job, const Cluster& cluster) {
  JobPlan plan;
  plan.job = job;
  RETURN_IF_ERROR(ValidateJob(plan.job));
  FillJobDefaults(&plan.job);
  RETURN_IF_ERROR(ValidateJobOnCluster(plan.job, cluster));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(plan.job.model()));
  plan.parameters = layout.parameters();
  plan.layout_hash = layout.Hash();
  plan.max_stripe_bytes =
      plan.job.stripe_kib() != 0 ? uint64_t{plan.job.stripe_kib()} * 1024 : kMaxStripeBytes;
  const auto shards = static_cast<uint32_t>(cluster.ps_size());
  ASSIGN_OR_RETURN(const ShardMap map,
                   ShardMap::Create(layout.size(), shards, plan.max_stripe_bytes));
  ASSIGN_OR_RETURN(plan.shard_bytes, BytesOfShards(plan.job, layout, map));
  plan.CountReplicas(cluster);
  if (HasFiles(plan.job.train()) || (plan.job.has_test() && HasFiles(plan.job.test()))) {
    plan.awaits_data = true;
    return plan;
  }
  // There are no files.
  const DataAccess access = DataAccess::ForJobs(DataRoots::None());
  absl::StatusOr<DatasetInfo> train =
      DescribeDataset(plan.job.train(), TrainingContext(plan.job, access));
  if (!train.ok()) {
    return Annotate(train.status(), "train");
  }
  RETURN_IF_ERROR(plan.TakeData(train->examples, cluster));
  if (plan.job.has_test()) {
    absl::StatusOr<DatasetInfo> test =
        DescribeDataset(plan.job.test(), TestContext(plan.job, access));
    if (!test.ok()) {
      return Annotate(test.status(), "test");
    }
  }
  return plan;
}

absl::Status JobPlan::Judge(const Job& job, const Cluster& cluster) {
  RETURN_IF_ERROR(ValidateJob(job));
  return ValidateJobOnCluster(job, cluster);
}

absl::Status JobPlan::TakeData(uint64_t found, const Cluster& cluster) {
  if (found == 0) {
    return absl::InvalidArgumentError("train: the data set is empty");
  }
  RETURN_IF_ERROR(ValidateJobOnData(job, found));
  examples = found;
  awaits_data = false;
  if (!IsJoined(job)) {
    ResolveShares(examples, TrainersOf(replicas, cluster), &job);
  }
  return absl::OkStatus();
}

void JobPlan::CountReplicas(const Cluster& cluster) {
  const auto listed = static_cast<uint32_t>(cluster.worker_size());
  const uint32_t wanted = WantedWorkers(job);
  replicas = wanted != 0 ? wanted : std::max(1u, listed);
  sharers = DifferenceSharers(job, listed);
}

void JobPlan::ChangeSettings(const Job& changed, const Cluster& cluster) {
  if (changed.downpour().workers() != job.downpour().workers()) {
    job = changed;
    CountReplicas(cluster);
  }
  job = changed;
  ++settings_revision;
}

std::vector<Procedure> JobPlan::procedures() const {
  std::vector<Procedure> procedures;
  if (TrainsInGroups(job)) {
    procedures.push_back(SYNCHRONOUS);
  } else if (job.has_downpour()) {
    procedures.push_back(DOWNPOUR);
  }
  if (job.has_sandblaster()) {
    procedures.push_back(SANDBLASTER);
  }
  return procedures;
}

StoredJobPlan JobPlan::ToStored() const {
  StoredJobPlan stored;
  *stored.mutable_job() = job;
  stored.set_parameters(parameters);
  stored.set_layout_hash(layout_hash);
  stored.set_max_stripe_bytes(max_stripe_bytes);
  stored.set_examples(examples);
  stored.set_awaits_data(awaits_data);
  stored.set_replicas(replicas);
  stored.set_sharers(sharers > 1 ? sharers : 0);
  stored.set_settings_revision(settings_revision);
  stored.mutable_shard_bytes()->Add(shard_bytes.begin(), shard_bytes.end());
  return stored;
}

JobPlan JobPlan::FromStored(const StoredJobPlan& stored) {
  JobPlan plan;
  plan.job = stored.job();
  plan.parameters = stored.parameters();
  plan.layout_hash = stored.layout_hash();
  plan.max_stripe_bytes = stored.max_stripe_bytes();
  plan.examples = stored.examples();
  plan.awaits_data = stored.awaits_data();
  plan.replicas = stored.replicas();
  plan.sharers = std::max(1u, stored.sharers());
  plan.settings_revision = stored.settings_revision();
  plan.shard_bytes.assign(stored.shard_bytes().begin(), stored.shard_bytes().end());
  return plan;
}

CreateShardJobRequest JobPlan::CreateRequest(const std::string& id, uint32_t shard,
                                             bool written_by_client) const {
  CreateShardJobRequest request;
  request.set_job(id);
  *request.mutable_model() = job.model();
  request.set_seed(job.seed());
  if (job.has_downpour()) {
    if (IsJoined(job)) {
      // Not before: programs' own settings are compared with the job's as they were given.
      Job resolved = job;
      ResolveShares(examples, {.workers = std::max(1u, job.downpour().programs())}, &resolved);
      *request.mutable_optimizer() = OuterOptimizer(resolved.downpour(), sharers);
    } else {
      *request.mutable_optimizer() = OuterOptimizer(job.downpour(), sharers);
    }
    request.set_fetch_changes(job.downpour().fetch_changes());
    if (job.downpour().has_staleness_bound() && job.downpour().staleness_policy() == DROP_OLDER) {
      request.set_drop_older_than(job.downpour().staleness_bound());
    }
    if (job.downpour().has_rounds()) {
      *request.mutable_rounds() = job.downpour().rounds();
    }
    if (job.synchronous().reduce() == Synchronous::SHARDS) {
      ScaleRate(job.synchronous(), replicas, request.mutable_optimizer());
    }
  } else {
    // A shard wants an update rule. Nobody pushes to a batch job, and this one
    // keeps no state.
    request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);
  }
  request.set_store_only(TrainsInGroups(job));
  request.set_shard(shard);
  request.set_shards(static_cast<uint32_t>(shard_bytes.size()));
  request.set_max_stripe_bytes(max_stripe_bytes);
  request.set_layout_hash(layout_hash);
  request.set_written_by_client(written_by_client);
  request.set_settings_revision(settings_revision);
  return request;
}

}  // namespace monsoon
