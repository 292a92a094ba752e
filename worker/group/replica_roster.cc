#include "worker/group/replica_roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "worker/group/call_progress.h"
#include "worker/session/session_status.h"

namespace monsoon {

bool AnyNetworkWould(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) ||
         absl::IsUnimplemented(status) || absl::IsCancelled(status) ||
         IsProgramDivergedError(status);
}

absl::Status LossError(const absl::Status& why, const std::string& message) {
  return absl::IsResourceExhausted(why) ? absl::ResourceExhaustedError(message)
                                        : DeviceError(message);
}

ReplicaRoster::~ReplicaRoster() {
  for (Replica& replica : replicas_) {
    if (replica.thread != nullptr) {
      replica.thread->Start([holder = std::move(replica.holder)] { holder->network.reset(); });
    }
  }
}

absl::Status ReplicaRoster::Make(const MakeNetwork& make) {
  const auto progress = std::make_shared<CallProgress>(replicas_.size());
  std::vector<absl::Status> made(replicas_.size());
  for (size_t i = 0; i < replicas_.size(); ++i) {
    Replica& replica = replicas_[i];
    replica.holder = std::make_shared<NetworkHolder>();
    replica.thread = std::make_unique<ReplicaThread>();
    replica.name = absl::StrCat("worker/", worker_, " replica ", i);
    replica.thread->Start(
        [&make, &replica, &status = made[i], holder = replica.holder, i, progress] {
          absl::StatusOr<std::unique_ptr<Network>> network = make(static_cast<uint32_t>(i));
          if (network.ok()) {
            holder->network = *std::move(network);
            replica.fingerprint = holder->network->Fingerprint();
            absl::StrAppend(&replica.name, " (", replica.fingerprint, ")");
          } else {
            status = std::move(network).status();
          }
          progress->Done(i, absl::ZeroDuration());
        });
  }
  progress->AwaitAll();
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (AnyNetworkWould(made[i])) {
      return made[i];
    }
    if (!made[i].ok()) {
      Lose(replicas_[i], made[i]);
    }
  }
  TellStats();
  return live() > 0 ? absl::OkStatus() : Annotate(made[0], replicas_[0].name);
}

size_t ReplicaRoster::live() const {
  return static_cast<size_t>(
      std::ranges::count_if(replicas_, [](const Replica& replica) { return replica.alive; }));
}

std::vector<ReplicaRoster::Replica*> ReplicaRoster::Living() {
  std::vector<Replica*> living;
  for (Replica& replica : replicas_) {
    if (replica.alive) {
      living.push_back(&replica);
    }
  }
  return living;
}

std::vector<std::string> ReplicaRoster::Fingerprints() const {
  std::vector<std::string> different;
  for (const Replica& replica : replicas_) {
    if (!replica.fingerprint.empty() &&
        std::find(different.begin(), different.end(), replica.fingerprint) == different.end()) {
      different.push_back(replica.fingerprint);
    }
  }
  return different;
}

void ReplicaRoster::Lose(Replica& replica, const absl::Status& why) {
  replica.alive = false;
  const std::string message = absl::StrCat(replica.name, ": ", why.message());
  last_loss_ = LossError(why, message);
  if (live() > 0) {
    LOG(ERROR) << message << "; the session goes on with " << live() << " of " << size()
               << " replicas";
  }
  TellStats();
}

void ReplicaRoster::TellStats() const {
  if (stats_ != nullptr) {
    stats_->SetReplicas(static_cast<uint32_t>(live()), static_cast<uint32_t>(size() - live()));
  }
}

}  // namespace monsoon
