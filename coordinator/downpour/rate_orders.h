// RateOrders: rates that follow the test set (PlateauSchedule). How often a rate is reduced
// follows from the job's durable test results; what a shard applies it tells with its status. So
// nothing of what was said need be remembered when a shard or the coordinator is started anew.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/controller.h"

namespace monsoon {

class RateOrders : public Controller {
 public:
  explicit RateOrders(Registry* registry) : Controller(registry) {}

  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;
};

}  // namespace monsoon
