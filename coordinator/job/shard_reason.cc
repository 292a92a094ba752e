#include "coordinator/job/shard_reason.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/job_view.h"

namespace monsoon {
namespace {

// Tasks and jobs that a reason lists by name; a line must stay readable.
constexpr size_t kMostNamed = 4;

}  // namespace

std::string JoinSome(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kMostNamed);
  std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (shown < names.size()) {
    absl::StrAppend(&text, " and ", names.size() - shown, " more");
  }
  return text;
}

std::string MissingShards(const Registry& registry, absl::Duration now) {
  std::vector<std::string> missing;
  for (uint32_t i = 0; i < registry.shards.size(); ++i) {
    const ShardView& shard = registry.shards.shard(i);
    if (shard.state == ShardView::State::kUp) {
      continue;
    }
    const bool seen = shard.state != ShardView::State::kNeverSeen;
    std::string text = absl::StrFormat(
        "ps/%d at %s (%s for %.0f s", i, registry.cluster.ps(static_cast<int>(i)).address(),
        !seen                                       ? "not seen"
        : shard.state == ShardView::State::kSuspect ? "silent"
                                                    : "lost",
        absl::ToDoubleSeconds(now - (seen ? shard.last_seen : registry.started)));
    if (!shard.last_error.ok()) {
      absl::StrAppend(&text, ": ", shard.last_error.message());
    }
    missing.push_back(absl::StrCat(text, ")"));
  }
  return JoinSome(missing);
}

std::string ShardReason(const JobRecord& job, const Registry& registry, absl::Duration now) {
  const JobView view(job, registry.shards);
  if (!registry.shards.all_up()) {
    const bool restorable = view.IsRestorable();
    bool lost = false;
    for (uint32_t shard = 0; shard < registry.shards.size(); ++shard) {
      lost |= registry.shards.shard(shard).state == ShardView::State::kLost;
    }
    return absl::StrCat(MissingShards(registry, now),
                        restorable && lost ? "; the job goes on when it is started again, which "
                                             "`coordinator up` does; else do it by hand"
                                           : "");
  }
  std::vector<std::string> restoring;
  for (uint32_t shard = 0; shard < registry.shards.size(); ++shard) {
    if (view.AwaitsRestore(shard)) {
      const SliceRestore& restore = job.restores[shard];
      restoring.push_back(absl::StrCat(
          ShardName(shard), " at ", registry.cluster.ps(static_cast<int>(shard)).address(),
          " (pid ", registry.shards.shard(shard).status.pid(), ") to restore its slice",
          restore.waits_for.empty() ? "" : absl::StrCat(", which says: ", restore.waits_for)));
    }
  }
  return absl::StrJoin(restoring, ", ");
}

}  // namespace monsoon
