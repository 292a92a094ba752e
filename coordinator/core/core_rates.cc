// CoordinatorCore: rates that follow the test set (PlateauSchedule). How often a rate is reduced
// follows from the job's durable test results; what a shard applies it tells with its status. So
// nothing of what was said need be remembered when a shard or the coordinator is started anew.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/core/coordinator_core.h"

namespace monsoon {

void CoordinatorCore::TakeRateCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (JobRecord* const job : active_) {
    const uint32_t wanted = job->rate_reductions();
    job->rate_orders.resize(shards_.size());
    for (uint32_t shard = 0; shard < shards_.size() && wanted > 0; ++shard) {
      RateOrder& order = job->rate_orders[shard];
      const uint64_t epoch = shards_.shard(shard).status.shard_epoch();
      const ShardJobStatus* const status = shards_.job(shard, job->id(), job->state().term());
      // What it has taken shows in its next status only.
      const bool has = (order.taken_by == epoch && order.reductions >= wanted) ||
                       (status != nullptr && status->rate_reductions() >= wanted);
      const bool may = job->procedure()->pushes() &&
                       shards_.shard(shard).state == ShardView::State::kUp &&
                       !AwaitsRestore(*job, shard);
      if (has || !may || order.in_flight || now < order.not_before) {
        continue;
      }
      order.in_flight = true;
      order.reductions = wanted;
      order.taken_by = 0;
      ShardCommand command;
      command.kind = ShardCommand::Kind::kReduceRate;
      command.shard = shard;
      command.job = job->id();
      command.job_term = job->state().term();
      command.shard_epoch = epoch;
      command.reduce.set_job(job->id());
      command.reduce.set_job_term(job->state().term());
      command.reduce.set_term(term());
      command.reduce.set_reductions(wanted);
      commands->push_back(std::move(command));
    }
  }
}

void CoordinatorCore::OnRateReduced(JobRecord* job, const ShardCommand& command,
                                    const absl::Status& status, absl::Duration now) {
  if (command.shard >= job->rate_orders.size()) {
    return;
  }
  RateOrder& order = job->rate_orders[command.shard];
  order.in_flight = false;
  if (status.ok()) {
    order.taken_by = command.shard_epoch;
  } else {
    order.not_before = now + kCommandRetry;
    if (order.told != status.message()) {
      order.told = std::string(status.message());
      job->AddEvent(now, "rate_not_reduced", absl::StrCat("ps/", command.shard), order.told);
    }
  }
}

}  // namespace monsoon
