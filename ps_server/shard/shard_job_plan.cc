#include "ps_server/shard/shard_job_plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/shorten.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/memory/float_arena.h"
#include "common/model/table_info.h"
#include "common/optimizer/optimizer_groups.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/settings/number_rule.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/absent_tensors.h"
#include "ps_server/shard/spare_room.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {
namespace {

absl::Status CheckRequest(const CreateShardJobRequest& request) {
  const std::string& name = request.job();
  const auto printable = [](char c) { return c > ' ' && c < '\x7f'; };
  if (name.empty()) {
    return absl::InvalidArgumentError("the job has no name");
  }
  if (name.size() > kMaxJobName || !std::ranges::all_of(name, printable)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a name of ", name.size(), " bytes, \"", absl::CHexEscape(Shorten(name, 32)),
        "\", is no job's: 1 to ", kMaxJobName, " printable ASCII characters without blanks are"));
  }
  if (request.ByteSizeLong() > kMaxCreateRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a request of ", request.ByteSizeLong(),
                                                   " bytes; the limit is ", kMaxCreateRequestBytes,
                                                   ": the model has too many layers or names"));
  }
  if (request.shard() >= request.shards()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shard ", request.shard(), " of ", request.shards()));
  }
  if (request.fetch_changes() != FLOAT32 && !TensorCodec::CarriesChanges(request.fetch_changes())) {
    return absl::InvalidArgumentError(
        absl::StrCat("changes cannot be fetched in format ", request.fetch_changes()));
  }
  if (request.store_only() && (request.has_rounds() || request.fetch_changes() != FLOAT32 ||
                               request.model().table_size() > 0)) {
    return absl::InvalidArgumentError(
        "a slice that only stores has no rounds, no changes to fetch and no tables: nobody pushes");
  }
  return CheckNumbers(request.rounds(), "rounds.");
}

// Of a stripe's own kernel, and of each range in it.
constexpr uint64_t kStripeKernelBytes = 512;

}  // namespace

bool IsSameSlice(const CreateShardJobRequest& a, const CreateShardJobRequest& b) {
  using google::protobuf::util::MessageDifferencer;
  if (a.settings_revision() == b.settings_revision()) {
    return MessageDifferencer::Equals(a, b);
  }
  if (OptimizerName(a.optimizer()) != OptimizerName(b.optimizer()) ||
      a.has_rounds() != b.has_rounds()) {
    return false;  // their states are laid out otherwise
  }
  CreateShardJobRequest changed = a;
  changed.set_settings_revision(b.settings_revision());
  *changed.mutable_optimizer() = b.optimizer();
  if (b.has_rounds()) {
    *changed.mutable_rounds() = b.rounds();
  }
  changed.clear_drop_older_than();
  if (b.has_drop_older_than()) {
    changed.set_drop_older_than(b.drop_older_than());
  }
  return MessageDifferencer::Equals(changed, b);
}

size_t StateLead(const OptimizerKernel& kernel, const ShardMap& map, StateBehind behind) {
  constexpr size_t kPage = 4096 / sizeof(float);
  return Stripe::StateFloats(kernel, map.stripe_floats(), behind) < kPage ? 0 : kPage;
}

absl::StatusOr<ShardJobPlan> PlanJob(const CreateShardJobRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  ShardJobPlan plan;
  ASSIGN_OR_RETURN(plan.layout, ParameterLayout::Create(request.model()));
  if (plan.layout.Hash() != request.layout_hash()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the model has layout %016x here, but %016x at the sender: different builds",
        plan.layout.Hash(), request.layout_hash()));
  }
  ASSIGN_OR_RETURN(
      plan.map, ShardMap::Create(plan.layout.size(), request.shards(), request.max_stripe_bytes()));
  plan.shape.floats = plan.map.shard(request.shard()).size();
  plan.shape.stripe_floats = plan.map.stripe_floats();
  if (request.optimizer().schedule().has_plateau()) {
    plan.reductions =
        std::make_shared<RateReductions>(request.optimizer().schedule().plateau().reductions());
  }
  ASSIGN_OR_RETURN(plan.kernel, OptimizerKernel::Create(request.optimizer(), plan.reductions));
  RETURN_IF_ERROR(CheckGroups(request.optimizer()));
  const uint64_t stripes = plan.map.stripes(request.shard());
  const StateBehind behind = StateBehind::Of(request);
  if (plan.kernel->state_slots() > 0 || behind.slots() > 0) {
    const auto state_of = [&](size_t floats) {
      return FloatArena::BytesFor(1, Stripe::StateFloats(*plan.kernel, floats, behind));
    };
    // All stripes are of one size but the last one.
    const Slice last = plan.map.stripe(request.shard(), static_cast<uint32_t>(stripes) - 1);
    plan.state_bytes = FloatArena::BytesFor(1, StateLead(*plan.kernel, plan.map, behind)) +
                       (stripes - 1) * state_of(plan.map.stripe_floats()) + state_of(last.size());
  }
  // Of padding and biases; and kernels that leave biases or statistics alone.
  const uint64_t tensors = plan.layout.tensors().size();
  const bool own_kernels = request.optimizer().weight_decay_weights_only() ||
                           request.optimizer().group_size() > 0 ||
                           std::ranges::any_of(plan.layout.tensors(), &TensorInfo::is_statistic);
  const uint64_t kernels = own_kernels ? (stripes + tensors) * kStripeKernelBytes : 0;
  // A cut gives both stripes a part of a tensor.
  const uint64_t absent =
      stripes * AbsentTensors::kStripeBytes + (stripes + tensors) * AbsentTensors::kTensorBytes;
  const uint64_t steps = behind.public_copy ? plan.shape.floats * sizeof(float) : 0;  // at most
  ASSIGN_OR_RETURN(const uint64_t tables,
                   TableBytes(plan.layout.tables(), request.shard(), request.shards()));
  const uint64_t spare = request.store_only() ? SpareRoom::Bytes(plan.shape.floats, stripes,
                                                                 plan.kernel->state_slots())
                                              : 0;
  plan.memory_bytes = tables + spare + plan.shape.floats * sizeof(float) + plan.state_bytes +
                      steps + stripes * kStripeOverheadBytes + kJobOverheadBytes + kernels +
                      absent + request.SpaceUsedLong() + 4 * tensors * sizeof(Slice);
  return plan;
}

}  // namespace monsoon
