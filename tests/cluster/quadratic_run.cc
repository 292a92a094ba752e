#include "tests/cluster/quadratic_run.h"

#include <memory>
#include <utility>

#include "common/base/status.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "coordinator/lbfgs/synthetic_objective.h"
#include "coordinator/sandblaster/batch_run.h"
#include "coordinator/sandblaster/shard_vector_space.h"
#include "coordinator/sandblaster/vector_shards.h"
#include "proto/optimizer.pb.h"
#include "ps_server/client/shard_control.h"
#include "tests/cluster/poll_until.h"

namespace monsoon::testing {
namespace {

constexpr char kJob[] = "quadratic-1";
constexpr absl::Duration kStart = absl::Seconds(30);
// Of one operation; 10^8 floats take seconds.
constexpr absl::Duration kDeadline = absl::Seconds(60);

}  // namespace

absl::StatusOr<JobDescription> RunQuadratic(const QuadraticRun& run) {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(run.model));
  std::vector<std::unique_ptr<ShardControl>> controls;
  VectorShards::Options options;
  options.job = kJob;
  options.stopped = [] { return false; };
  for (const std::string& address : run.shards) {
    CreateShardJobRequest request;
    request.set_job(kJob);
    *request.mutable_model() = run.model;
    request.set_seed(run.seed);
    request.mutable_optimizer()->mutable_sgd()->set_rate(1.0);  // a shard wants one
    request.set_shard(static_cast<uint32_t>(controls.size()));
    request.set_shards(static_cast<uint32_t>(run.shards.size()));
    request.set_max_stripe_bytes(kMaxStripeBytes);
    request.set_layout_hash(layout.Hash());
    ShardControl* const control =
        controls.emplace_back(ShardControl::Create(address, kDeadline)).get();
    absl::StatusOr<CreateShardJobReply> reply;
    PollUntil(kStart, [&] {
      reply = control->CreateJob(request);
      return !absl::IsUnavailable(reply.status());
    });
    RETURN_IF_ERROR(reply.status());
    options.shard_epochs.push_back(reply->shard_epoch());
    options.calls.push_back(
        [control](const VectorRequest& vector) { return control->Vector(vector); });
  }
  VectorShards shards(std::move(options));
  ShardVectorSpace space(&shards);
  ASSIGN_OR_RETURN(SyntheticObjective objective,
                   SyntheticObjective::Create(&space, run.seed, run.condition, run.config.l2()));

  JobDescription description;
  description.set_parameters(layout.parameters());
  JobDescription::Sandblaster* const out = description.mutable_sandblaster();
  const auto observe = [&](const IterationReport& report) {
    JobDescription::Iteration* const point = out->add_trace();
    point->set_iteration(report.iteration);
    point->set_f(report.f);
    const VectorShards::Statistics statistics = shards.statistics();
    out->set_iteration(report.iteration);
    out->set_evaluations(report.evaluations);
    out->set_commands(statistics.commands);
    out->set_command_bytes(statistics.bytes);
    out->set_largest_command_bytes(statistics.largest);
    return true;
  };
  ASSIGN_OR_RETURN(const BatchEnd end, RunMinimizer(run.config, /*tensors=*/{}, /*from=*/nullptr,
                                                    &space, &objective, observe));
  out->set_end_reason(end.reason);
  out->set_end_detail(end.detail);
  for (const std::unique_ptr<ShardControl>& control : controls) {
    RETURN_IF_ERROR(control->DeleteJob(kJob));
  }
  return description;
}

}  // namespace monsoon::testing
