#include "coordinator/synchronous/store_orders.h"

#include <cstdint>
#include <string>
#include <utility>

namespace monsoon {

bool StoreOrders::Has(const JobRecord& job, uint32_t shard) const {
  const ShardView& view = shards_.shard(shard);
  if (view.state != ShardView::State::kUp || View(job).AwaitsRestore(shard)) {
    return false;
  }
  const SynchronousState& state = job.state().synchronous();
  if (state.written() == 0) {
    return true;
  }
  const StoreOrder& order = job.orders.stores[shard];
  if (order.write == state.written() && order.taken_by == view.status.shard_epoch()) {
    return true;
  }
  const ShardJobStatus* const status = shards_.job(shard, job.id(), job.state().term());
  if (status == nullptr) {
    return false;
  }
  // One that was restored knows of no writes, but may have come back with just this one.
  const uint64_t updates = state.written_at().updates();
  return status->adopted() >= state.written() ||
         (status->adopted() == 0 && status->version_min() == updates &&
          status->version_max() == updates);
}

bool StoreOrders::Advance(JobRecord* job, absl::Duration /*now*/) {
  StoredParameters* const stored = job->procedure()->stored();
  if (stored == nullptr) {
    return true;
  }
  job->orders.stores.resize(shards_.size());
  bool whole = true;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    whole &= Has(*job, shard);
  }
  stored->NoteStored(whole);
  return true;
}

void StoreOrders::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (JobRecord* const job : jobs_.active()) {
    // A generation that is under way is of what shards had when it was ordered: some may not have
    // cut their parts yet.
    if (job->state().checkpoint().ordered() != 0) {
      continue;
    }
    const uint64_t written = job->state().synchronous().written();
    job->orders.stores.resize(shards_.size());
    for (uint32_t shard = 0; shard < shards_.size() && written > 0; ++shard) {
      StoreOrder& order = job->orders.stores[shard];
      const ShardView& view = shards_.shard(shard);
      if (order.in_flight || now < order.not_before || view.state != ShardView::State::kUp ||
          View(*job).AwaitsRestore(shard) || Has(*job, shard)) {
        continue;
      }
      order.in_flight = true;
      order.write = written;
      order.taken_by = 0;
      ShardCommand command = CommandFor(*job, shard, ShardCommand::Kind::kAdopt);
      SetJob(*job, &command.adopt);
      command.adopt.set_write(written);
      commands->push_back(std::move(command));
    }
  }
}

void StoreOrders::OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                           absl::Duration now) {
  if (command.shard >= job->orders.stores.size()) {
    return;
  }
  StoreOrder& order = job->orders.stores[command.shard];
  order.in_flight = false;
  if (answer.status.ok()) {
    order.taken_by = command.shard_epoch;
    return;
  }
  order.not_before = now + kCommandRetry;
  if (absl::IsFailedPrecondition(answer.status)) {
    // The shard was started anew in between: a worker writes once more.
    if (job->procedure() != nullptr && job->procedure()->stored() != nullptr) {
      job->procedure()->stored()->NoteWriteLost();
    }
    return;
  }
  if (order.told != answer.status.message()) {
    order.told = std::string(answer.status.message());
    job->AddEvent(now, "write_not_adopted", ShardName(command.shard), order.told);
  }
}

std::string StoreOrders::WaitsFor(const JobRecord& job, Moment /*moment*/) const {
  StoredParameters* const stored = job.stage() == JOB_ACTIVE ? job.procedure()->stored() : nullptr;
  return stored == nullptr ? "" : stored->waits_for();
}

}  // namespace monsoon
