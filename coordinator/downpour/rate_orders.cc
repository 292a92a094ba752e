#include "coordinator/downpour/rate_orders.h"

#include <cstdint>
#include <string>
#include <utility>

namespace monsoon {

void RateOrders::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (JobRecord* const job : jobs_.active()) {
    const uint32_t wanted = job->rate_reductions();
    job->orders.rates.resize(shards_.size());
    for (uint32_t shard = 0; shard < shards_.size() && wanted > 0; ++shard) {
      RateOrder& order = job->orders.rates[shard];
      const uint64_t epoch = shards_.shard(shard).status.shard_epoch();
      const ShardJobStatus* const status = shards_.job(shard, job->id(), job->state().term());
      // What it has taken shows in its next status only.
      const bool has = (order.taken_by == epoch && order.reductions >= wanted) ||
                       (status != nullptr && status->rate_reductions() >= wanted);
      const bool may = job->procedure()->pushes() &&
                       shards_.shard(shard).state == ShardView::State::kUp &&
                       !View(*job).AwaitsRestore(shard);
      if (has || !may || order.in_flight || now < order.not_before) {
        continue;
      }
      order.in_flight = true;
      order.reductions = wanted;
      order.taken_by = 0;
      ShardCommand command = CommandFor(*job, shard, ShardCommand::Kind::kReduceRate);
      SetJob(*job, &command.reduce);
      command.reduce.set_reductions(wanted);
      commands->push_back(std::move(command));
    }
  }
}

void RateOrders::OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                          absl::Duration now) {
  if (command.shard >= job->orders.rates.size()) {
    return;
  }
  const absl::Status& status = answer.status;
  RateOrder& order = job->orders.rates[command.shard];
  order.in_flight = false;
  if (status.ok()) {
    order.taken_by = command.shard_epoch;
  } else {
    order.not_before = now + kCommandRetry;
    if (order.told != status.message()) {
      order.told = std::string(status.message());
      job->AddEvent(now, "rate_not_reduced", ShardName(command.shard), order.told);
    }
  }
}

}  // namespace monsoon
