#include "coordinator/client/join_job.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/lasting.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "common/model/bias_ranges.h"
#include "common/model/fragment_map.h"
#include "common/model/shard_map.h"
#include "common/model/table_info.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

// Whether the coordinator would say the same again. Not so ALREADY_EXISTS: it
// has yet to notice that this worker's process before it has died.
bool IsFinal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
         absl::IsPermissionDenied(status) || IsLasting(status);
}

// What `membership` waits for, and the last trouble with it.
std::string Waiting(const ReplicaMembership& membership, absl::Duration waited,
                    const absl::Status& trouble) {
  const std::string name =
      absl::StrCat(membership.Name(), " waited ", absl::FormatDuration(waited), " for ");
  if (!trouble.ok()) {
    return absl::StrCat(name, "the coordinator: ", trouble.ToString());
  }
  if (membership.incarnation() == 0) {
    return absl::StrCat(name, "the coordinator");
  }
  return absl::StrCat(name, "a job: it joined as incarnation ", membership.incarnation(),
                      ", and the coordinator has none for it");
}

}  // namespace

absl::StatusOr<JoinedJob> MakeJoinedJob(const Assignment& assignment) {
  JoinedJob joined;
  joined.session = assignment.session();
  joined.job = assignment.job();
  ASSIGN_OR_RETURN(joined.layout, ParameterLayout::Create(joined.job.model()));
  if (joined.layout.Hash() != assignment.layout_hash()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "worker/%d derives layout %016x from the model, the coordinator %016x: mixed builds",
        joined.session.worker(), joined.layout.Hash(), assignment.layout_hash()));
  }
  if (assignment.shard_epoch_size() != assignment.shard_address_size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("job %s has %d shard addresses, but %d epochs", joined.session.job(),
                        assignment.shard_address_size(), assignment.shard_epoch_size()));
  }
  ParameterClientOptions& client = joined.client_options;
  ASSIGN_OR_RETURN(
      client.map,
      ShardMap::Create(joined.layout.size(), static_cast<uint32_t>(assignment.shard_address_size()),
                       assignment.max_stripe_bytes()));
  client.job = joined.session.job();
  client.worker = joined.session.worker();
  client.incarnation = joined.session.incarnation();
  client.job_term = joined.session.job_term();
  client.layout_hash = assignment.layout_hash();
  client.addresses = {assignment.shard_address().begin(), assignment.shard_address().end()};
  client.connections = std::max(1u, assignment.connections());
  client.shard_epochs = {assignment.shard_epoch().begin(), assignment.shard_epoch().end()};
  const Downpour& downpour = joined.job.downpour();
  ASSIGN_OR_RETURN(client.tables, TableMaps(joined.layout.tables(), client.map.shards()));
  if (downpour.local().has_fragments()) {
    ASSIGN_OR_RETURN(client.fragments,
                     FragmentMap::Create(downpour.local().fragments(), joined.layout, client.map));
  }
  client.rounds = downpour.has_rounds();
  client.push_format = downpour.push_format();
  if (!client.rounds && TensorCodec::CarriesStatistics(client.push_format)) {
    client.values = StatisticRanges(joined.layout, {0, joined.layout.size()});
  }
  client.fetch_format = downpour.fetch_format();
  client.fetch_changes = downpour.fetch_changes();
  client.top_k_share = downpour.top_k_share();
  client.residual_decay = downpour.has_residual_decay() ? downpour.residual_decay() : 1.0;
  joined.train_fingerprint = assignment.train_fingerprint();
  joined.test_fingerprint = assignment.test_fingerprint();
  joined.keep_pushes = assignment.keep_pushes();
  return joined;
}

void JoinCancellation::Cancel() {
  {
    MutexLock lock(&mutex_);
    cancelled_ = true;
  }
  changed_.NotifyAll();
}

bool JoinCancellation::WaitFor(absl::Duration duration) {
  MutexLock lock(&mutex_);
  return changed_.WaitFor(&mutex_, duration, [this] {
    mutex_.AssertHeld();
    return cancelled_;
  });
}

absl::StatusOr<JoinedJob> JoinJob(ReplicaClient* coordinator, ReplicaMembership* membership,
                                  const JoinJobOptions& options) {
  JoinCancellation never;
  JoinCancellation* const cancellation =
      options.cancellation != nullptr ? options.cancellation : &never;
  const absl::Duration begun = options.clock->Now();
  absl::Status trouble;
  absl::Duration pause = absl::ZeroDuration();
  while (!cancellation->WaitFor(pause)) {
    const absl::Duration left = begun + options.deadline - options.clock->Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          Waiting(*membership, options.clock->Now() - begun, trouble));
    }
    const HeartbeatRequest request = membership->MakeRequest();
    const absl::StatusOr<HeartbeatReply> reply = coordinator->Heartbeat(request);
    trouble = reply.status();
    if (reply.ok()) {
      membership->Apply(request, *reply);
      if (const Assignment* const assignment = membership->assignment()) {
        return MakeJoinedJob(*assignment);
      }
    } else if (IsFinal(trouble)) {
      return Annotate(trouble, absl::StrCat(membership->Name(), " was refused"));
    }
    pause = std::min(membership->heartbeat(), left);
  }
  return absl::CancelledError(Waiting(*membership, options.clock->Now() - begun, trouble));
}

}  // namespace monsoon
