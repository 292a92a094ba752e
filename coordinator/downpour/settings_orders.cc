#include "coordinator/downpour/settings_orders.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

// With rounds, a version is being agreed on.
bool IsUndated(const JobRecord& job) {
  return job.plan.job.downpour().has_rounds() && !job.state().settings().has_from_round();
}

}  // namespace

bool SettingsOrders::Has(const JobRecord& job, uint32_t shard) const {
  const SettingsOrder& order = job.orders.settings[shard];
  const uint64_t wanted = job.plan.settings_revision;
  const ShardJobStatus* const status = shards_.job(shard, job.id(), job.state().term());
  // What it has taken shows in its next status only.
  return (order.taken == wanted && order.life == shards_.shard(shard).status.shard_epoch()) ||
         (status != nullptr && status->settings_revision() >= wanted);
}

bool SettingsOrders::MayBeTold(const JobRecord& job, uint32_t shard) const {
  return shards_.shard(shard).state == ShardView::State::kUp && !View(job).AwaitsRestore(shard);
}

bool SettingsOrders::IsHeld(const JobRecord& job, uint32_t shard) const {
  const SettingsOrder& order = job.orders.settings[shard];
  return order.held == job.plan.settings_revision &&
         order.life == shards_.shard(shard).status.shard_epoch();
}

void SettingsOrders::TakeCommands(absl::Duration now, std::vector<ShardCommand>* commands) {
  for (JobRecord* const job : jobs_.active()) {
    if (job->plan.settings_revision == 0) {
      continue;
    }
    job->orders.settings.resize(shards_.size());
    // Where one is away, the others would hold their rounds until it is back.
    bool all_may = true;
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      all_may &= Has(*job, shard) || MayBeTold(*job, shard);
    }
    if (IsUndated(*job)) {
      DateIfAgreed(job, now);
    }
    const bool undated = IsUndated(*job);
    for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
      const SettingsOrder& order = job->orders.settings[shard];
      const bool may = MayBeTold(*job, shard) && (all_may || !undated);
      if (may && !Has(*job, shard) && !(undated && IsHeld(*job, shard)) && !order.in_flight &&
          now >= order.not_before) {
        Tell(job, shard, commands);
      }
    }
  }
}

void SettingsOrders::Tell(JobRecord* job, uint32_t shard, std::vector<ShardCommand>* commands) {
  job->orders.settings[shard].in_flight = true;
  const CreateShardJobRequest made =
      job->plan.CreateRequest(job->id(), shard, /*written_by_client=*/false);
  ShardCommand command = CommandFor(*job, shard, ShardCommand::Kind::kChangeSettings);
  ChangeSettingsRequest& request = command.settings;
  SetJob(*job, &request);
  request.set_revision(job->plan.settings_revision);
  *request.mutable_optimizer() = made.optimizer();
  if (made.has_rounds()) {
    *request.mutable_rounds() = made.rounds();
  }
  if (made.has_drop_older_than()) {
    request.set_drop_older_than(made.drop_older_than());
  }
  if (made.has_rounds() && job->state().settings().has_from_round()) {
    request.set_from_version(job->state().settings().from_round());
  }
  commands->push_back(std::move(command));
}

void SettingsOrders::DateIfAgreed(JobRecord* job, absl::Duration now) {
  uint64_t furthest = 0;
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    if (IsHeld(*job, shard)) {
      furthest = std::max(furthest, job->orders.settings[shard].held_at);
    } else if (!Has(*job, shard)) {
      return;
    }
  }
  // The round that is open on the furthest: whoever lowers a quorum waits for that one to end.
  const uint64_t from = furthest + 1;
  job->Make([&](StateUpdate* update) { update->mutable_settings_dated()->set_from_round(from); });
  job->AddEvent(
      now, "settings_dated", "",
      absl::StrCat("revision ", job->plan.settings_revision, ": from round ", from, " on"));
}

void SettingsOrders::OnAnswer(JobRecord* job, const ShardCommand& command,
                              const ShardAnswer& answer, absl::Duration now) {
  if (command.shard >= job->orders.settings.size()) {
    return;
  }
  SettingsOrder& order = job->orders.settings[command.shard];
  order.in_flight = false;
  const absl::Status& status = answer.status;
  if (!status.ok()) {
    order.not_before = now + kCommandRetry;
    if (order.told != status.message()) {
      order.told = std::string(status.message());
      job->AddEvent(now, "settings_not_taken", ShardName(command.shard), order.told);
    }
    return;
  }
  if (order.life != command.shard_epoch) {
    order.held = order.taken = 0;
    order.life = command.shard_epoch;
  }
  const ChangeSettingsRequest& told = command.settings;
  if (told.has_rounds() && !told.has_from_version()) {
    order.held = told.revision();
    order.held_at = answer.version;
    return;
  }
  order.taken = told.revision();
  if (answer.version == 0) {
    return;  // it was made with them, which its status has not said yet
  }
  job->AddEvent(now, "settings_taken", ShardName(command.shard),
                absl::StrCat("revision ", told.revision(), ": from ",
                             told.has_rounds() ? "round " : "push ", answer.version, " on"));
}

}  // namespace monsoon
