#include "worker/downpour/make_exchange.h"

#include <utility>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/base/logging.h"
#include "common/codec/wire_formats.h"
#include "worker/downpour/accumulator.h"
#include "worker/downpour/differences.h"
#include "worker/downpour/gradient_push.h"
#include "worker/downpour/replica_parameters.h"
#include "worker/nn/device_training.h"

namespace monsoon {
namespace {

// Moves the local update and the sums of gradients to the group's device. Whether the local
// update is there afterwards.
bool MoveToDevice(const DownpourRunnerOptions& options, const StatisticsKeeper& statistics,
                  const ReplicaGroup& group, LocalUpdater* local, Accumulator* accumulator) {
  DeviceTraining* const device = group.device();
  absl::Status status = options.step_clip_norm > 0
                            ? absl::UnimplementedError("the norm of each step's gradient")
                        : statistics.of_network() ? absl::UnimplementedError("means of statistics")
                        : local != nullptr        ? local->MoveTo(device)
                                                  : absl::OkStatus();
  bool local_moved = local != nullptr && status.ok();
  // The host clips floats by their norm.
  const WireFormat format = options.clip_norm > 0 ? FLOAT32 : options.push_format;
  // One replica's gradient of one step goes to the host while the step still computes.
  const bool direct = options.exchange == ExchangeKind::kGradients && options.n_push == 1 &&
                      group.replicas() == 1 && !IsHalf(format);
  if (status.ok() && !direct) {
    status = accumulator->MoveTo(device, format);
  }
  if (!status.ok()) {
    LOG(WARNING) << "worker/" << options.worker
                 << ": the host does what the device cannot: " << status.message();
    // A local update reads the round's gradient where it is.
    CHECK(!local_moved || local->MoveTo(nullptr).ok());
    local_moved = false;
  }
  return local_moved;
}

}  // namespace

std::unique_ptr<Exchange> MakeExchange(const DownpourRunnerOptions& options, size_t floats,
                                       ReplicaGroup* group, std::unique_ptr<LocalUpdater> local,
                                       const StatisticsKeeper* statistics, FetchPlan* plan) {
  floats = options.halves ? floats / 2 : floats;
  const bool once =
      !group->own_parameters().empty() && local == nullptr && statistics->parts().empty();
  CHECK(once || !options.halves);
  ParameterStore store(floats, once ? ParameterStore::Kind::kOnce : ParameterStore::Kind::kTwice);
  for (AlignedFloats* const parameters : store.buffers()) {
    group->LockPages(parameters);
  }
  const bool differences = options.exchange == ExchangeKind::kDifferences;
  Accumulator accumulator(
      floats, differences ? options.turn_steps : options.n_push,
      [group](AlignedFloats* buffer) { group->LockPages(buffer); },
      differences      ? Accumulator::Kind::kDifferences
      : options.halves ? Accumulator::Kind::kEncoded
                       : Accumulator::Kind::kGradients);
  const bool on_device = group->device() != nullptr &&
                         MoveToDevice(options, *statistics, *group, local.get(), &accumulator);

  std::unique_ptr<MovedParameters> moved;
  if (on_device) {
    moved = std::make_unique<MovedOnDevice>(std::move(store), group, statistics, std::move(local),
                                            options.worker);
  } else if (local != nullptr) {
    moved = std::make_unique<MovedOnHost>(std::move(store), group, statistics, std::move(local));
  }
  switch (options.exchange) {
    case ExchangeKind::kDifferences:
      CHECK(moved != nullptr);
      return std::make_unique<Differences>(Differences::Options{options.turn_steps, options.paced,
                                                                options.fragments, options.rounds},
                                           std::move(moved), std::move(accumulator), statistics,
                                           plan);
    case ExchangeKind::kGradients:
      break;
  }
  std::unique_ptr<ReplicaParameters> parameters = std::move(moved);
  if (parameters == nullptr) {
    parameters = std::make_unique<FetchedParameters>(std::move(store), group, statistics);
  }
  return std::make_unique<GradientPush>(options.n_fetch, std::move(parameters),
                                        std::move(accumulator), statistics);
}

}  // namespace monsoon
