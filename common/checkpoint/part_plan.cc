#include "common/checkpoint/part_plan.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/model/vector_name.h"
#include "common/optimizer/optimizer_state.h"

namespace monsoon {
namespace {

constexpr char kFormatName[] = "monsoon-checkpoint";
// Of the slots of the optimizer's state.
constexpr const char* kStatePrefixes[] = {"optimizer:", "optimizer.1:", "optimizer.2:"};
static_assert(std::size(kStatePrefixes) == kMaxStateSlots);
constexpr char kVectorPrefix[] = "vector:";
constexpr char kTablePrefix[] = "table:";

absl::Status CheckVectors(const std::vector<std::string>& vectors) {
  if (vectors.size() > kMaxPartVectors) {
    return absl::InvalidArgumentError(
        absl::StrCat(vectors.size(), " vectors; the limit is ", kMaxPartVectors));
  }
  std::set<std::string> names;
  for (const std::string& name : vectors) {
    RETURN_IF_ERROR(CheckVectorName(name));
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two vectors \"", name, "\""));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> StateBehindOptimizer(const CreateShardJobRequest& create) {
  std::vector<std::string> names;
  if (create.has_rounds()) {
    names = {"round.low", "round.high"};
  }
  if (create.fetch_changes() != FLOAT32) {
    names.push_back("public");
  }
  return names;
}

absl::StatusOr<PartPlan> PartPlan::Create(const ShardCheckpoint& content) {
  const CreateShardJobRequest& create = content.create();
  PartPlan plan{.shard = create.shard(),
                .state_slots = content.state_slots(),
                .vectors = {content.context().vector().begin(), content.context().vector().end()}};
  ASSIGN_OR_RETURN(plan.layout, ParameterLayout::Create(create.model()));
  if (plan.layout.Hash() != create.layout_hash()) {
    return absl::InvalidArgumentError("its layout hash is not that of its model");
  }
  ASSIGN_OR_RETURN(
      plan.map, ShardMap::Create(plan.layout.size(), create.shards(), create.max_stripe_bytes()));
  if (create.shard() >= create.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", create.shard(), " of ", create.shards()));
  }
  plan.behind = StateBehindOptimizer(create);
  if (plan.state_slots < plan.behind.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.state_slots, " floats of state for each parameter; ", plan.behind.size(),
                     " are needed beside the optimizer's: ", absl::StrJoin(plan.behind, ", ")));
  }
  if (plan.state_slots - plan.behind.size() > kMaxStateSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        plan.state_slots - plan.behind.size(), " floats of optimizer state for each parameter"));
  }
  RETURN_IF_ERROR(CheckVectors(plan.vectors));
  ASSIGN_OR_RETURN(plan.tables, TableMaps(plan.layout.tables(), create.shards()));
  plan.slice = plan.map.shard(create.shard());
  for (const TensorInfo& tensor : plan.layout.tensors()) {
    const Slice range{std::max(plan.slice.begin, tensor.offset),
                      std::min(plan.slice.end, tensor.offset + tensor.size)};
    if (range.begin < range.end) {
      plan.pieces.push_back({.name = absl::StrCat(tensor.name, "[", range.begin - tensor.offset,
                                                  ":", range.end - tensor.offset, ")"),
                             .range = range});
    }
  }
  return plan;
}

uint64_t PartPlan::RowStripeFloats(const RowStripeRecord& stripe) const {
  const TableMap& map = tables[stripe.table()];
  const uint64_t first = uint64_t{stripe.stripe()} * map.stripe_rows();
  return std::min<uint64_t>(map.stripe_rows(), map.rows_of(shard) - first) *
         (map.columns() + uint64_t{1});
}

absl::StatusOr<std::vector<uint64_t>> PartPlan::TableFloats(const ShardCheckpoint& content) const {
  std::vector<uint64_t> floats(tables.size(), 0);
  const RowStripeRecord* before = nullptr;
  for (const RowStripeRecord& stripe : content.row_stripe()) {
    if (stripe.table() >= tables.size()) {
      return absl::InvalidArgumentError(absl::StrCat("it has rows of table ", stripe.table(),
                                                     ", where the model has ", tables.size()));
    }
    if (const uint32_t stripes = tables[stripe.table()].stripes_of(shard);
        stripe.stripe() >= stripes) {
      return absl::InvalidArgumentError(absl::StrCat("it has stripe ", stripe.stripe(),
                                                     " of table ", stripe.table(), ", of which ",
                                                     stripes, " are of this shard"));
    }
    if (before != nullptr && std::pair(before->table(), before->stripe()) >=
                                 std::pair(stripe.table(), stripe.stripe())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stripe ", stripe.stripe(), " of table ", stripe.table(), " comes after stripe ",
          before->stripe(), " of table ", before->table(), "; they must rise"));
    }
    floats[stripe.table()] += RowStripeFloats(stripe);
    before = &stripe;
  }
  return floats;
}

std::vector<TensorSpec> PartPlan::Tensors() const {
  std::vector<TensorSpec> tensors;
  const auto add = [&](const std::string& prefix) {
    for (const PartPiece& piece : pieces) {
      tensors.push_back(
          {.name = prefix + piece.name, .type = TensorType::kF32, .shape = {piece.range.size()}});
    }
  };
  add("");
  for (size_t slot = 0; slot + behind.size() < state_slots; ++slot) {
    add(kStatePrefixes[slot]);
  }
  for (const std::string& name : behind) {
    add(absl::StrCat(name, ":"));
  }
  for (const std::string& name : vectors) {
    add(absl::StrCat(kVectorPrefix, name, ":"));
  }
  for (const TableInfo& table : layout.tables()) {
    tensors.push_back(
        {.name = absl::StrCat(kTablePrefix, table.name), .type = TensorType::kF32, .shape = {0}});
  }
  tensors.push_back({.name = kShardTensor, .type = TensorType::kU8, .shape = {0}});
  tensors.push_back({.name = kChecksumTensor, .type = TensorType::kU64, .shape = {0}});
  return tensors;
}

std::map<std::string, std::string> PartMetadata(const CheckpointManifest& manifest) {
  return {
      {"format", kFormatName},
      {"format_version", absl::StrCat(manifest.format_version())},
      {"job", manifest.job()},
      {"shard", absl::StrCat(manifest.shard())},
      {"shards", absl::StrCat(manifest.shards())},
      {"generation", absl::StrCat(manifest.generation())},
      {"shard_epoch", absl::StrCat(manifest.shard_epoch())},
  };
}

CheckpointManifest ManifestOf(const ShardCheckpoint& content) {
  CheckpointManifest manifest;
  manifest.set_job(content.create().job());
  manifest.set_job_term(content.create().job_term());
  manifest.set_shard(content.create().shard());
  manifest.set_shards(content.create().shards());
  manifest.set_generation(content.generation());
  manifest.set_shard_epoch(content.shard_epoch());
  manifest.set_parent_epoch(content.parent_epoch());
  manifest.set_parent_generation(content.parent_generation());
  manifest.set_layout_hash(content.create().layout_hash());
  return manifest;
}

}  // namespace monsoon
