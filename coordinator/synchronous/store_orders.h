// StoreOrders: what a synchronous job's shards are to store. A worker writes its state to all of
// them, beside what they have; once all have it whole, which is durable then (StateWritten), each
// is told to adopt it, again and again until its status shows it. So all shards come to the same
// state, whoever dies in between. No generation is ordered before they have, and none is told to
// adopt while one is under way: each part of that is to be of one write.
//
// A shard that was started anew has an older state, or none of the write; then what is stored is
// not whole, and the job's procedure has a worker write anew.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/controller.h"

namespace monsoon {

class StoreOrders : public Controller {
 public:
  explicit StoreOrders(Registry* registry) : Controller(registry) {}

  bool Advance(JobRecord* job, absl::Duration now) override;
  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;
  std::string WaitsFor(const JobRecord& job, Moment moment) const override;

 private:
  // The shard's slice is what was written last, or what a fresh one is before that.
  bool Has(const JobRecord& job, uint32_t shard) const;
};

}  // namespace monsoon
