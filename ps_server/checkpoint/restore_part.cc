#include "ps_server/checkpoint/restore_part.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/memory/aligned_floats.h"

namespace monsoon {
namespace {

struct LoadedPart {
  std::unique_ptr<PartReader> reader;
  AlignedFloats parameters;
  AlignedFloats state;
};

absl::StatusOr<LoadedPart> Load(const Storage* storage, const std::string& manifest) {
  LoadedPart part;
  ASSIGN_OR_RETURN(part.reader, PartReader::Open(storage, manifest));
  const size_t floats = part.reader->slice().size();
  part.parameters = AlignedFloats(floats);
  part.state = AlignedFloats(floats * part.reader->content().state_slots());
  RETURN_IF_ERROR(part.reader->ReadAll(part.parameters.span(), part.state.span()));
  return part;
}

}  // namespace

absl::StatusOr<uint64_t> RestoreNewestPart(const Storage* storage, const std::string& folder,
                                           uint32_t shard_index, uint64_t term, Shard* shard,
                                           std::vector<std::string>* skipped) {
  ASSIGN_OR_RETURN(const std::vector<ShardPart> parts, ListPartsOf(storage, folder, shard_index));
  std::vector<std::string> damaged;
  for (const ShardPart& found : parts) {
    const absl::StatusOr<LoadedPart> part = Load(storage, found.manifest);
    if (!part.ok()) {
      damaged.push_back(std::string(part.status().message()));
      if (skipped != nullptr) {
        skipped->push_back(damaged.back());
      }
      continue;
    }
    RETURN_IF_ERROR(
        shard
            ->RestoreJob(part->reader->content(), part->parameters.span(), part->state.span(), term)
            .status());
    return found.generation;
  }
  return absl::NotFoundError(
      absl::StrCat(folder, " has no good part of shard ", shard_index,
                   damaged.empty() ? "" : absl::StrCat(" (", absl::StrJoin(damaged, "; "), ")")));
}

}  // namespace monsoon
