// SettingsOrders: tells each shard the newest settings of a job that trains (JobService.Set). They
// are durable with the job, and each shard tells with its status which it has; so nothing of what
// was said need be remembered when a shard or the coordinator is started anew. A slice that is made
// anew has them from its beginning.
//
// With rounds all shards take them at one version. First each ends no round any more and tells how
// far it is; when all have, the round that is open on the furthest becomes durable as the first by
// the new settings, and each is told that. Nobody's differences are lost meanwhile: they wait in
// the open round, and those that are in it already keep the damping that they came with.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/job/controller.h"

namespace monsoon {

class SettingsOrders : public Controller {
 public:
  explicit SettingsOrders(Registry* registry) : Controller(registry) {}

  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;

 private:
  // The shard has the newest.
  bool Has(const JobRecord& job, uint32_t shard) const;
  // It is there, with its slice.
  bool MayBeTold(const JobRecord& job, uint32_t shard) const;
  // It ends no round until it is told from which on the newest hold.
  bool IsHeld(const JobRecord& job, uint32_t shard) const;
  // All shards are held or have them: says from which round on they hold.
  void DateIfAgreed(JobRecord* job, absl::Duration now);
  void Tell(JobRecord* job, uint32_t shard, std::vector<ShardCommand>* commands);
};

}  // namespace monsoon
