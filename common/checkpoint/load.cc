#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/part_plan.h"

namespace monsoon {
namespace {

// What all parts of a generation have in common, as bytes.
std::string Description(const ShardCheckpoint& content) {
  CreateShardJobRequest create = content.create();
  create.clear_shard();
  return create.SerializeAsString();
}

// How far the job had come: without what differs when an order is repeated.
std::string Progress(const ShardCheckpoint& content) {
  CheckpointContext context = content.context();
  context.clear_ordered_ms();
  context.clear_reason();
  context.clear_elapsed_s();
  return context.SerializeAsString();
}

// That `part` is shard `shard` of the same generation as `first`.
absl::Status CheckBelongs(const PartReader& first, const PartReader& part, uint32_t shard,
                          const GenerationParts& parts) {
  const auto differs = [&](absl::string_view what) {
    return absl::DataLossError(
        absl::StrCat(parts.manifest[shard], ": its ", what, " is not that of ", parts.manifest[0]));
  };
  const CheckpointManifest& a = first.manifest();
  const CheckpointManifest& b = part.manifest();
  if (b.shard() != shard || b.shards() != parts.shards || b.generation() != parts.generation) {
    return absl::DataLossError(absl::StrCat(parts.manifest[shard], ": not shard ", shard, " of ",
                                            parts.shards, " of generation ", parts.generation));
  }
  if (a.job() != b.job() || a.job_term() != b.job_term()) {
    return differs("job");
  }
  if (a.layout_hash() != b.layout_hash()) {
    return differs("layout");
  }
  if (first.content().state_slots() != part.content().state_slots()) {
    return differs("optimizer state");
  }
  if (Description(first.content()) != Description(part.content())) {
    return differs("description");
  }
  if (Progress(first.content()) != Progress(part.content())) {
    return differs("progress");
  }
  return absl::OkStatus();
}

}  // namespace

uint32_t OptimizerSlots(const ShardCheckpoint& content) {
  const size_t behind = StateBehindOptimizer(content.create()).size();
  CHECK_GE(content.state_slots(), behind);
  return content.state_slots() - static_cast<uint32_t>(behind);
}

absl::StatusOr<LoadedCheckpoint> LoadGeneration(const Storage* storage,
                                                const GenerationParts& parts) {
  CHECK_EQ(parts.manifest.size(), parts.shards);
  if (!parts.complete()) {
    std::vector<uint32_t> missing;
    for (uint32_t shard = 0; shard < parts.shards; ++shard) {
      if (parts.manifest[shard].empty()) {
        missing.push_back(shard);
      }
    }
    return absl::NotFoundError(absl::StrCat("generation ", parts.generation, " of ", parts.shards,
                                            " shards lacks the part of shard ",
                                            absl::StrJoin(missing, ", ")));
  }
  LoadedCheckpoint loaded;
  std::vector<std::unique_ptr<PartReader>> readers;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> open;  // by session
  for (uint32_t shard = 0; shard < parts.shards; ++shard) {
    ASSIGN_OR_RETURN(std::unique_ptr<PartReader> part,
                     PartReader::Open(storage, parts.manifest[shard]));
    readers.push_back(std::move(part));
    RETURN_IF_ERROR(CheckBelongs(*readers[0], *readers[shard], shard, parts));
    loaded.bytes += readers[shard]->manifest().bytes();
    std::vector<uint64_t>& versions = loaded.versions.emplace_back();
    for (const StripeRecord& stripe : readers[shard]->content().stripe()) {
      versions.push_back(stripe.version());
      for (const RoundMember& member : stripe.member()) {
        uint64_t& pushes = open[{member.worker(), member.incarnation()}];
        pushes = std::max(pushes, member.pushes());
      }
    }
  }
  for (const auto& [session, pushes] : open) {
    loaded.in_rounds += pushes;
  }
  loaded.content = readers[0]->content();
  loaded.content.clear_stripe();
  loaded.content.clear_row_stripe();
  loaded.content.clear_row_session();
  loaded.layout = readers[0]->layout();
  const CreateShardJobRequest& create = loaded.content.create();
  ASSIGN_OR_RETURN(loaded.map, ShardMap::Create(loaded.layout.size(), create.shards(),
                                                create.max_stripe_bytes()));
  // Slices of one map cover it all. That so many floats are there was checked, so a
  // header cannot make us take memory for nothing.
  loaded.parameters.resize(loaded.layout.size());
  loaded.state.resize(loaded.content.state_slots() * loaded.layout.size());
  for (const std::unique_ptr<PartReader>& part : readers) {
    const Slice slice = part->slice();
    RETURN_IF_ERROR(part->ReadTo(
        [&](uint64_t at) {
          return std::span(loaded.parameters).subspan(slice.begin + at, slice.size() - at);
        },
        [&](size_t slot, uint64_t at) {
          const size_t begin = slot * loaded.layout.size() + slice.begin + at;
          return std::span(loaded.state).subspan(begin, slice.size() - at);
        }));
    RETURN_IF_ERROR(part->VerifyTables());
  }
  if (!loaded.layout.tables().empty()) {
    loaded.parts.assign(std::make_move_iterator(readers.begin()),
                        std::make_move_iterator(readers.end()));
  }
  return loaded;
}

absl::StatusOr<LoadedCheckpoint> LoadNewest(const Storage* storage, const std::string& folder,
                                            std::vector<std::string>* skipped) {
  ASSIGN_OR_RETURN(const std::vector<GenerationParts> generations,
                   ListGenerations(storage, folder));
  std::vector<std::string> reasons;
  absl::StatusCode code = absl::StatusCode::kNotFound;
  for (const GenerationParts& parts : generations) {
    absl::StatusOr<LoadedCheckpoint> loaded = LoadGeneration(storage, parts);
    if (loaded.ok()) {
      if (skipped != nullptr) {
        *skipped = std::move(reasons);
      }
      return loaded;
    }
    if (parts.complete()) {
      code = absl::StatusCode::kDataLoss;
    }
    reasons.push_back(
        absl::StrCat("generation ", parts.generation, ": ", loaded.status().message()));
  }
  if (skipped != nullptr) {
    *skipped = reasons;
  }
  return absl::Status(code,
                      absl::StrCat(folder, ": no generation is complete and good",
                                   reasons.empty() ? "" : "; ", absl::StrJoin(reasons, "; ")));
}

}  // namespace monsoon
