// Restores: a shard that was started anew gets the slices of jobs that are kept on its disk back,
// before anything else is asked of it for them.
//
// Which slices those are follows from the state alone (JobView::AwaitsRestore), so that nothing
// of it is lost with a coordinator. An order goes to one life of the shard, and only that life's
// answer counts; until there is one it is repeated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "coordinator/job/controller.h"
#include "coordinator/slices/slices.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

class Restores : public Controller {
 public:
  // A slice that cannot come back is lost.
  Restores(Registry* registry, Slices* slices) : Controller(registry), slices_(slices) {}

  void TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) override;
  void OnAnswer(JobRecord* job, const ShardCommand& command, const ShardAnswer& answer,
                absl::Duration now) override;
  void OnShardRestarted(JobRecord* job, const ShardChange& change, const std::string& text,
                        absl::Duration now) override;

  // The shard's state folder will not come back, says `by`: jobs that wait for it fail, unless it
  // is there when the shard looks once more. Gives all that await an answer of the shard, about
  // which it is to be repeated. NOT_FOUND, or FAILED_PRECONDITION where the shard does not answer.
  absl::StatusOr<std::vector<std::string>> GiveUp(uint32_t shard, const std::string& by,
                                                  absl::Duration now);

 private:
  ShardCommand RestoreCommand(const JobRecord& job, uint32_t shard) const;
  void FinishRestore(JobRecord* job, uint32_t shard, const RestoreShardJobReply& reply,
                     absl::Duration now);

  Slices* const slices_;
};

}  // namespace monsoon
