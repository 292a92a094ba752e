#include "ps_server/checkpoint/write_part.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"

namespace monsoon {
namespace {

constexpr uint64_t kBesideFloats = 1 << 20;

double Mebibytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

absl::Status CheckRoom(const Storage& storage, const std::string& folder, uint64_t bytes) {
  const absl::StatusOr<uint64_t> free = storage.FreeBytes(folder);
  // A system that does not know lets the writing find out.
  if (free.ok() && *free < bytes + kFreeBytesKept) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%s: %.1f MiB are free, and a part takes %.1f MiB beside %.0f MiB that stay free", folder,
        Mebibytes(*free), Mebibytes(bytes), Mebibytes(kFreeBytesKept)));
  }
  return absl::OkStatus();
}

// What has become of the job meanwhile.
void Refresh(const ShardJob& job, ShardCheckpoint* content) {
  ShardCheckpoint cut = job.CutJob();
  content->mutable_closed()->Swap(cut.mutable_closed());
  content->mutable_staleness()->Swap(cut.mutable_staleness());
  content->set_applied(cut.applied());
  content->set_duplicates(cut.duplicates());
  content->set_refused(cut.refused());
  content->set_staleness_unknown(cut.staleness_unknown());
}

// A part of this life and generation that is good, but was not known to be on the disk:
// the last step of writing it failed.
absl::StatusOr<WrittenPart> AdoptPart(Storage* storage, const std::string& folder,
                                      const ShardCheckpoint& content) {
  ASSIGN_OR_RETURN(const std::vector<ShardPart> parts,
                   ListPartsOf(storage, folder, content.create().shard()));
  for (const ShardPart& found : parts) {
    if (found.generation != content.generation()) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<PartReader> part,
                     PartReader::Open(storage, found.manifest));
    if (part->manifest().shard_epoch() != content.shard_epoch()) {
      continue;
    }
    RETURN_IF_ERROR(part->Verify());
    RETURN_IF_ERROR(storage->SyncFolder(folder));
    return WrittenPart{part->manifest(),
                       {part->content().stripe().begin(), part->content().stripe().end()}};
  }
  return absl::InternalError(
      absl::StrCat(folder, ": generation ", content.generation(), " is there and cannot be found"));
}

}  // namespace

uint64_t PartBytes(const ShardJob& job) {
  uint64_t floats = 0;
  for (uint32_t stripe = 0; stripe < job.stripes(); ++stripe) {
    floats += job.stripe_floats(stripe);
  }
  return floats * sizeof(float) * (1 + static_cast<uint64_t>(job.state_slots())) + kBesideFloats;
}

absl::StatusOr<WrittenPart> WritePart(Storage* storage, const std::string& state_dir,
                                      const ShardJob& job, const CheckpointRequest& order,
                                      absl::FunctionRef<absl::Status()> check_owner,
                                      absl::FunctionRef<bool()> go_on) {
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(job.request().model()));
  const std::string folder = JobFolder(state_dir, job.request().job(), job.request().job_term());
  RETURN_IF_ERROR(storage->MakeFolder(folder));
  RETURN_IF_ERROR(CheckRoom(*storage, folder, PartBytes(job)));
  ShardCheckpoint content = job.CutJob();
  content.set_generation(order.generation());
  *content.mutable_context() = order.context();
  const absl::StatusOr<std::unique_ptr<PartWriter>> created =
      PartWriter::Create(storage, folder, layout, content);
  if (absl::IsAlreadyExists(created.status())) {
    return AdoptPart(storage, folder, content);
  }
  RETURN_IF_ERROR(created.status());
  PartWriter* const writer = created->get();
  // The first stripe is as long as any.
  const size_t longest = job.stripe_floats(0);
  const auto slots = static_cast<size_t>(job.state_slots());
  AlignedFloats parameters = AlignedFloats::Uninitialized(longest);
  AlignedFloats state = AlignedFloats::Uninitialized(longest * slots);
  WrittenPart part;
  for (uint32_t stripe = 0; stripe < job.stripes(); ++stripe) {
    if (!go_on()) {
      return absl::CancelledError(absl::StrCat("generation ", order.generation(), " is given up"));
    }
    const size_t floats = job.stripe_floats(stripe);
    const std::span<float> cut = parameters.span().first(floats);
    const std::span<float> cut_state = state.span().first(floats * slots);
    part.stripes.push_back(job.CutStripe(stripe, cut, cut_state));
    RETURN_IF_ERROR(writer->AddStripe(cut, cut_state, part.stripes.back()));
  }
  Refresh(job, writer->content());
  ASSIGN_OR_RETURN(part.manifest, writer->Finish([&] { return check_owner(); }));
  return part;
}

}  // namespace monsoon
