#include "coordinator/slices/lost_pushes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/replica_set.h"
#include "coordinator/shards/shard_command.h"

namespace monsoon {
namespace {

// "pushes 13 to 20 (24 records, rows of 8 pushes)".
std::string RangeOf(const LostPushes& lost) {
  std::vector<std::string> what;
  if (lost.records() > 0) {
    what.push_back(absl::StrCat(lost.records(), " records"));
  }
  if (lost.row_pushes() > 0) {
    what.push_back(absl::StrCat("rows of ", lost.row_pushes(), " pushes"));
  }
  return absl::StrCat("pushes ", lost.from(),
                      lost.has_to() ? absl::StrCat(" to ", lost.to())
                                    : absl::StrCat(" to ", lost.to_at_least(), " at least"),
                      " (", absl::StrJoin(what, ", "), ")");
}

bool Covers(const LostPushes& known, const LostPushes& lost) {
  return known.shard() == lost.shard() && known.worker() == lost.worker() &&
         known.incarnation() == lost.incarnation() && known.from() <= lost.from() &&
         (!known.has_to() || (lost.has_to() && lost.to() <= known.to())) &&
         known.to_at_least() >= lost.to_at_least() && known.records() >= lost.records() &&
         known.row_pushes() >= lost.row_pushes();
}

}  // namespace

void NoteLostPushes(JobRecord* job, const LostPushes& lost, absl::Duration now,
                    Registry* registry) {
  const auto covers = [&lost](const LostPushes& known) { return Covers(known, lost); };
  if (std::ranges::any_of(job->state().lost(), covers)) {
    return;  // Told before the shard died once more.
  }
  job->Make([&](StateUpdate* update) { *update->mutable_pushes_lost() = lost; });
  const std::string text = absl::StrCat(ShardName(lost.shard()), " has lost ", RangeOf(lost),
                                        " of ", WorkerName(lost.worker()), "#", lost.incarnation(),
                                        ", which is gone and cannot send them again");
  job->AddEvent(now, "pushes_lost", WorkerName(lost.worker()), text);
  registry->Log(absl::StrCat("job ", job->id(), ": ", text));
}

}  // namespace monsoon
