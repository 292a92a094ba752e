#include "ps_server/checkpoint/restore_part.h"

#include <algorithm>
#include <memory>
#include <ranges>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/manifest.h"
#include "common/model/fragment_map.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/storage/file_path.h"
#include "ps_server/shard/shard_job_plan.h"
#include "ps_server/shard/slice_sessions.h"

namespace monsoon {
namespace {

// The disk's word, and not what it holds: the next read may succeed.
bool IsReadError(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsPermissionDenied(status);
}

// What the restore is answered then, for it to be asked again.
absl::Status NotReadYet(const absl::Status& error, const std::string& manifest) {
  return absl::UnavailableError(absl::StrCat(
      error.message(), "; it is read again until that succeeds: bring the disk back, or remove ",
      manifest, " and do without that part"));
}

// Opens a part and checks that it is of the slice which is asked for.
absl::StatusOr<std::unique_ptr<PartReader>> OpenPartOf(const Storage* storage,
                                                       const std::string& manifest,
                                                       const ShardJob& job) {
  ASSIGN_OR_RETURN(std::unique_ptr<PartReader> part, PartReader::Open(storage, manifest));
  if (!IsSameSlice(part->content().create(), job.request())) {
    return absl::DataLossError(absl::StrCat(manifest, ": it is of a job with other content"));
  }
  // Before any of it is read to where there is no room for it.
  if (part->content().state_slots() != static_cast<uint32_t>(job.stripes().state_slots())) {
    return absl::DataLossError(absl::StrCat(
        manifest, ": it has ", part->content().state_slots(),
        " floats of optimizer state for each parameter, the job ", job.stripes().state_slots()));
  }
  return part;
}

absl::StatusOr<std::unique_ptr<PartReader>> ReadPartOf(const Storage* storage,
                                                       const std::string& manifest, ShardJob* job) {
  ASSIGN_OR_RETURN(std::unique_ptr<PartReader> part, OpenPartOf(storage, manifest, *job));
  RETURN_IF_ERROR(part->ReadTo(
      [&](uint64_t at) { return job->checkpoint()->RestoredParameters(at); },
      [&](size_t slot, uint64_t at) { return job->checkpoint()->RestoredState(slot, at); }));
  if (job->tables() != nullptr) {
    RETURN_IF_ERROR(part->ReadRows(
        [&](const RowStripeRecord& stripe) { return job->tables()->RestoredFloats(stripe); }));
  }
  const auto& names = part->content().context().vector();
  for (int i = 0; i < names.size(); ++i) {
    RETURN_IF_ERROR(job->vectors()->RestoreVector(names[i], [&](std::span<float> floats) {
      return part->ReadVector(static_cast<size_t>(i),
                              [&](uint64_t at) { return floats.subspan(at); });
    }));
  }
  return part;
}

// What is in the folder, newest first, sorted out.
class Restoration {
 public:
  Restoration(Storage* storage, std::vector<OwnPart> found, const RestoreShardJobRequest& request,
              absl::FunctionRef<bool()> go_on, ShardJob* job)
      : storage_(storage),
        found_(std::move(found)),
        generation_(request.generation()),
        least_generation_(request.least_generation()),
        held_(request.held()),
        go_on_(go_on),
        job_(job) {}

  // Reads the newest good part that will do, and opens the one before it.
  absl::Status Find() {
    for (OwnPart& part : found_) {
      if (!go_on_()) {
        return absl::CancelledError("its slice is given up");
      }
      const bool of_same_generation =
          newest_ != nullptr && newest_->manifest().generation() == part.name.generation;
      if (part.whole && !of_same_generation) {
        ASSIGN_OR_RETURN(const bool taken, Take(part));
        if (taken) {
          continue;
        }
      }
      if (generation_ > 0 && part.name.generation > generation_ &&
          part.name.epoch == job_->shard_epoch()) {
        overtaken_.push_back(std::move(part.files));
      } else if (part.whole && newest_ == nullptr &&
                 damaged_generations_.contains(part.name.generation)) {
        passed_over_.push_back(std::move(part.files));
      } else {
        leftover_.push_back(std::move(part.files));
      }
    }
    return absl::OkStatus();
  }

  // Removes what this life has written of generations after the one that is asked for.
  absl::Status RemoveOvertaken() {
    for (const PartFiles& files : overtaken_) {
      RETURN_IF_ERROR(RemovePart(storage_, files));
    }
    return absl::OkStatus();
  }

  const PartReader* newest() const { return newest_.get(); }
  const PartReader* older() const { return older_.get(); }
  const std::vector<std::string>& damaged() const { return damaged_; }

  absl::StatusOr<KeptParts> Keep(const std::string& folder) {
    KeptParts parts(folder);
    const uint64_t best = newest_ == nullptr ? 0 : newest_->content().context().best().generation();
    RETURN_IF_ERROR(KeepBest(best, &parts));
    for (const auto& part : std::views::reverse(earlier_)) {
      parts.Add(part->manifest(), part->content().applied(), /*ordered=*/true, best);
    }
    for (const PartReader* const part : {older(), newest()}) {
      if (part != nullptr) {
        parts.Add(part->manifest(), part->content().applied(), IsOrdered(*part), best);
      }
    }
    for (PartFiles& files : leftover_) {
      parts.NotRemoved(std::move(files));
    }
    for (PartFiles& files : passed_over_) {
      parts.PassOver(std::move(files));
    }
    return parts;
  }

 private:
  // One that is neither of the two.
  absl::Status KeepBest(uint64_t best, KeptParts* parts) {
    for (auto files = leftover_.begin(); files != leftover_.end(); ++files) {
      const auto name = PartName::OfManifest(NameOfPath(files->manifest));
      if (best == 0 || !name.has_value() || name->generation != best) {
        continue;
      }
      const auto part = PartReader::Open(storage_, files->manifest);
      if (IsReadError(part.status())) {
        return NotReadYet(part.status(), files->manifest);
      }
      if (part.ok()) {
        parts->Add((*part)->manifest(), (*part)->content().applied(), /*ordered=*/true, best);
        leftover_.erase(files);
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  bool WillDo(uint64_t generation) const {
    return generation_ > 0 ? generation == generation_ : generation >= least_generation_;
  }

  // What is durable for workers is what the older of two generations holds. So one damaged
  // generation costs nothing; beneath two there is a part of long ago (the best one), which lacks
  // what nobody sends again.
  bool FallsTooFar(uint64_t generation) const {
    return held_ > 0 && std::ranges::count_if(damaged_generations_, [&](uint64_t damaged) {
                          return damaged > generation;
                        }) > 1;
  }

  static bool IsOrdered(const PartReader& part) {
    return part.content().context().reason() != kServerStops;
  }

  // Whether it is one of those that KeptParts keeps.
  absl::StatusOr<bool> Take(const OwnPart& found) {
    const std::string& manifest = found.files.manifest;
    if (newest_ == nullptr) {
      if (!WillDo(found.name.generation) || FallsTooFar(found.name.generation)) {
        return false;
      }
      absl::StatusOr<std::unique_ptr<PartReader>> part = ReadPartOf(storage_, manifest, job_);
      if (absl::IsResourceExhausted(part.status())) {
        return part.status();  // the part may be good
      }
      if (IsReadError(part.status())) {
        return NotReadYet(part.status(), manifest);
      }
      if (!part.ok()) {
        job_->vectors()->ClearVectors();
        if (job_->tables() != nullptr) {
          job_->tables()->Clear();  // another part may have touched fewer stripes
        }
        damaged_.push_back(std::string(part.status().message()));
        damaged_generations_.insert(found.name.generation);
        return false;
      }
      newest_ = *std::move(part);
      ordered_ += IsOrdered(*newest_);
      return true;
    }
    // Of one generation the part of the newest epoch.
    const PartReader* const last = earlier_.empty() ? older_.get() : earlier_.back().get();
    if (last != nullptr && (ordered_ >= KeptParts::kGenerations ||
                            found.name.generation == last->manifest().generation())) {
      return false;
    }
    absl::StatusOr<std::unique_ptr<PartReader>> part = OpenPartOf(storage_, manifest, *job_);
    if (IsReadError(part.status())) {
      return NotReadYet(part.status(), manifest);
    }
    if (!part.ok() || (older_ != nullptr && !IsOrdered(**part))) {
      return false;
    }
    ordered_ += IsOrdered(**part);
    if (older_ == nullptr) {
      older_ = *std::move(part);
    } else {
      earlier_.push_back(*std::move(part));
    }
    return true;
  }

  Storage* const storage_;
  std::vector<OwnPart> found_;
  const uint64_t generation_;  // 0: any
  const uint64_t least_generation_;
  const uint64_t held_;
  const absl::FunctionRef<bool()> go_on_;
  ShardJob* const job_;
  std::unique_ptr<PartReader> newest_;
  std::unique_ptr<PartReader> older_;
  std::vector<std::unique_ptr<PartReader>> earlier_;  // ordered ones, the newest first
  size_t ordered_ = 0;                                // of all these
  std::vector<std::string> damaged_;
  std::set<uint64_t> damaged_generations_;
  std::vector<PartFiles> leftover_;
  std::vector<PartFiles> passed_over_;
  std::vector<PartFiles> overtaken_;
};

// Why there is none.
absl::Status NoGoodPart(const std::string& folder, uint32_t shard,
                        const RestoreShardJobRequest& request,
                        const std::vector<std::string>& damaged) {
  std::string which;
  if (request.generation() > 0) {
    which = absl::StrCat(" of generation ", request.generation());
  } else if (request.least_generation() > 0) {
    which = absl::StrCat(" from generation ", request.least_generation(), " on");
  }
  return absl::NotFoundError(
      absl::StrCat(folder, " has no good part of shard ", shard, which,
                   damaged.empty() ? "" : absl::StrCat(" (", absl::StrJoin(damaged, "; "), ")")));
}

// The last sequences here of those that have left.
absl::StatusOr<std::vector<LeftPushes>> LeftOf(const RestoreShardJobRequest& request,
                                               const ShardMap& map) {
  FragmentMap fragments = FragmentMap::Whole(map);
  if (request.has_fragments()) {
    ASSIGN_OR_RETURN(const ParameterLayout layout,
                     ParameterLayout::Create(request.create().model()));
    ASSIGN_OR_RETURN(fragments, FragmentMap::Create(request.fragments(), layout, map));
  }
  const uint32_t shard = request.create().shard();
  std::vector<LeftPushes> all;
  for (const LeftSession& session : request.left()) {
    LeftPushes left{{session.worker(), session.incarnation()}, {}, session.pushes()};
    for (uint32_t stripe = 0; stripe < map.stripes(shard); ++stripe) {
      left.last.push_back(fragments.LastSequence(fragments.Of(shard, stripe), session.pushes()));
    }
    all.push_back(std::move(left));
  }
  return all;
}

// Whether the folder can be the one to which the generation was written that all shards hold: a
// part of it tells, damaged or not, but not what a life left that died while it wrote.
absl::Status CheckFolder(const std::string& folder, const std::vector<OwnPart>& found,
                         const RestoreShardJobRequest& request) {
  const auto written = std::ranges::find_if(
      found, [](const OwnPart& part) { return part.whole || part.passed_over; });
  const uint64_t newest = written == found.end() ? 0 : written->name.generation;
  if (newest >= request.held()) {
    return absl::OkStatus();
  }
  const std::string task = absl::StrCat("ps/", request.create().shard());
  const std::string what = absl::StrCat(task, "'s state folder with generation ", request.held(),
                                        " of ", request.create().job());
  const std::string there =
      absl::StrCat("; found: ", found.empty() ? "none" : absl::StrCat(newest), " (", folder, ")");
  if (!request.given_up_by().empty()) {
    return absl::NotFoundError(absl::StrCat(request.given_up_by(), " has given up ", what, there));
  }
  return absl::UnavailableError(
      absl::StrCat("it waits for ", what, there,
                   ": put the right folder back, or give it up: `coordinator give-up ", task, "`"));
}

}  // namespace

absl::StatusOr<RestoredPart> RestoreNewestPart(Storage* storage, const std::string& folder,
                                               const RestoreShardJobRequest& request,
                                               std::span<const SessionId> open,
                                               absl::FunctionRef<bool()> go_on, ShardJob* job) {
  const uint32_t shard = job->request().shard();
  absl::StatusOr<std::vector<OwnPart>> found = ListOwnParts(*storage, folder, shard);
  if (!found.ok()) {
    return absl::UnavailableError(found.status().message());
  }
  RETURN_IF_ERROR(CheckFolder(folder, *found, request));
  ASSIGN_OR_RETURN(const std::vector<LeftPushes> left, LeftOf(request, job->map()));
  Restoration restoration(storage, *std::move(found), request, go_on, job);
  RETURN_IF_ERROR(restoration.Find());
  const PartReader* const newest = restoration.newest();
  if (newest == nullptr && (request.generation() > 0 || request.least_generation() > 0 ||
                            request.create().written_by_client())) {
    return NoGoodPart(folder, shard, request, restoration.damaged());
  }
  ASSIGN_OR_RETURN(KeptParts parts, restoration.Keep(folder));
  RestoredPart restored{.skipped = restoration.damaged(), .parts = std::move(parts)};
  if (newest == nullptr) {
    job->checkpoint()->Clear();  // a damaged part may have left something
    RETURN_IF_ERROR(job->stripes()->Initialize(go_on));
    for (const SessionId& session : open) {
      RETURN_IF_ERROR(job->sessions()->Open(session).status());
    }
    restored.lost = job->sessions()->TakeOverMarks(ShardCheckpoint(), left);
    return restored;
  }
  RETURN_IF_ERROR(restoration.RemoveOvertaken());
  // A life that ended in the last step of writing one has left a name that a power cut
  // would take away.
  RETURN_IF_ERROR(storage->SyncFolder(folder));
  const ShardCheckpoint& content = newest->content();
  RETURN_IF_ERROR(job->checkpoint()->Restore(
      content, restoration.older() == nullptr ? nullptr : &restoration.older()->content(), open));
  restored.lost = job->sessions()->TakeOverMarks(content, left);
  restored.generation = content.generation();
  restored.shard_epoch = content.shard_epoch();
  restored.applied = content.applied();
  restored.context = content.context();
  return restored;
}

}  // namespace monsoon
