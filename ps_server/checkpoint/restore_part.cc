#include "ps_server/checkpoint/restore_part.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "google/protobuf/util/message_differencer.h"

namespace monsoon {
namespace {

// Opens a part and checks that it is of the slice which is asked for.
absl::StatusOr<std::unique_ptr<PartReader>> OpenPartOf(const Storage* storage,
                                                       const std::string& manifest,
                                                       const ShardJob& job) {
  ASSIGN_OR_RETURN(std::unique_ptr<PartReader> part, PartReader::Open(storage, manifest));
  if (!google::protobuf::util::MessageDifferencer::Equals(part->content().create(),
                                                          job.request())) {
    return absl::DataLossError(absl::StrCat(manifest, ": it is of a job with other content"));
  }
  return part;
}

absl::StatusOr<std::unique_ptr<PartReader>> ReadPartOf(const Storage* storage,
                                                       const std::string& manifest, ShardJob* job) {
  ASSIGN_OR_RETURN(std::unique_ptr<PartReader> part, OpenPartOf(storage, manifest, *job));
  RETURN_IF_ERROR(part->ReadTo([&](uint64_t at) { return job->RestoredParameters(at); },
                               [&](uint64_t at) { return job->RestoredState(at); }));
  return part;
}

// What is in the folder, newest first, sorted out.
class Restoration {
 public:
  Restoration(Storage* storage, std::vector<OwnPart> found, uint64_t least_generation,
              absl::FunctionRef<bool()> go_on, ShardJob* job)
      : storage_(storage),
        found_(std::move(found)),
        least_generation_(least_generation),
        go_on_(go_on),
        job_(job) {}

  // Reads the newest good part, and opens the one before it.
  absl::Status Find() {
    for (OwnPart& part : found_) {
      if (!go_on_()) {
        return absl::CancelledError("its slice is given up");
      }
      const bool of_same_generation =
          newest_ != nullptr && newest_->manifest().generation() == part.name.generation;
      if (part.whole && !of_same_generation && Take(part)) {
        continue;
      }
      leftover_.push_back(std::move(part.files));
    }
    return absl::OkStatus();
  }

  const PartReader* newest() const { return newest_.get(); }
  const PartReader* older() const { return older_.get(); }
  const std::vector<std::string>& damaged() const { return damaged_; }

  KeptParts Keep(const std::string& folder) {
    KeptParts parts(folder);
    for (const PartReader* const part : {older(), newest()}) {
      if (part != nullptr) {
        parts.Add(part->manifest(), part->content().applied());
      }
    }
    for (PartFiles& files : leftover_) {
      parts.NotRemoved(std::move(files));
    }
    return parts;
  }

 private:
  // Whether it is one of the two.
  bool Take(const OwnPart& found) {
    const std::string& manifest = found.files.manifest;
    if (newest_ == nullptr) {
      if (found.name.generation < least_generation_) {
        return false;
      }
      absl::StatusOr<std::unique_ptr<PartReader>> part = ReadPartOf(storage_, manifest, job_);
      if (!part.ok()) {
        damaged_.push_back(std::string(part.status().message()));
        return false;
      }
      newest_ = *std::move(part);
      return true;
    }
    if (older_ != nullptr) {
      return false;
    }
    absl::StatusOr<std::unique_ptr<PartReader>> part = OpenPartOf(storage_, manifest, *job_);
    if (part.ok()) {
      older_ = *std::move(part);
    }
    return older_ != nullptr;
  }

  Storage* const storage_;
  std::vector<OwnPart> found_;
  const uint64_t least_generation_;
  const absl::FunctionRef<bool()> go_on_;
  ShardJob* const job_;
  std::unique_ptr<PartReader> newest_;
  std::unique_ptr<PartReader> older_;
  std::vector<std::string> damaged_;
  std::vector<PartFiles> leftover_;
};

}  // namespace

absl::StatusOr<RestoredPart> RestoreNewestPart(Storage* storage, const std::string& folder,
                                               const RestoreShardJobRequest& request,
                                               std::span<const SessionId> open,
                                               absl::FunctionRef<bool()> go_on, ShardJob* job) {
  const uint32_t shard = job->request().shard();
  ASSIGN_OR_RETURN(std::vector<OwnPart> found, ListOwnParts(*storage, folder, shard));
  Restoration restoration(storage, std::move(found), request.least_generation(), go_on, job);
  RETURN_IF_ERROR(restoration.Find());
  const PartReader* const newest = restoration.newest();
  if (newest == nullptr &&
      (request.least_generation() > 0 || request.create().written_by_client())) {
    const std::vector<std::string>& damaged = restoration.damaged();
    return absl::NotFoundError(
        absl::StrCat(folder, " has no good part of shard ", shard,
                     request.least_generation() > 0
                         ? absl::StrCat(" from generation ", request.least_generation(), " on")
                         : "",
                     damaged.empty() ? "" : absl::StrCat(" (", absl::StrJoin(damaged, "; "), ")")));
  }
  RestoredPart restored{.skipped = restoration.damaged(), .parts = restoration.Keep(folder)};
  if (newest == nullptr) {
    job->Clear();  // a damaged part may have left something
    RETURN_IF_ERROR(job->Initialize(go_on));
    for (const SessionId& session : open) {
      RETURN_IF_ERROR(job->OpenSession(session).status());
    }
    restored.lost = job->TakeOverMarks(ShardCheckpoint());
    return restored;
  }
  // A life that ended in the last step of writing one has left a name that a power cut
  // would take away.
  RETURN_IF_ERROR(storage->SyncFolder(folder));
  const ShardCheckpoint& content = newest->content();
  RETURN_IF_ERROR(job->Restore(
      content, restoration.older() == nullptr ? nullptr : &restoration.older()->content(), open));
  restored.lost = job->TakeOverMarks(content);
  restored.generation = content.generation();
  restored.shard_epoch = content.shard_epoch();
  restored.applied = content.applied();
  restored.context = content.context();
  return restored;
}

}  // namespace monsoon
