#include "coordinator/job/checkpoint_schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace monsoon {
namespace {

// The first look after an order, and when looking more often than the usual polls ends.
constexpr absl::Duration kFirstLook = absl::Milliseconds(10);
constexpr absl::Duration kLastLook = absl::Seconds(1);

constexpr char kAskedFor[] = "asked for";
constexpr char kWorkerWaits[] = "a worker waits until its pushes are durable";
constexpr char kAtEnd[] = "the job's end";

bool IsUnreached(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

}  // namespace

CheckpointSchedule::CheckpointSchedule(const JobWriter& writer, const Checkpoint& config,
                                       uint32_t shards)
    : writer_(writer), config_(config), shards_(shards) {
  ForgetShards();
}

void CheckpointSchedule::ForgetShards() {
  shards_.assign(shards_.size(), Shard());
  // Initial parameters have version 0, those that a client wrote may have any.
  version_ = writer_.job().init() ? std::nullopt : std::make_optional<uint64_t>(0);
  waiting_.clear();
  error_.clear();
}

void CheckpointSchedule::ForgetShard(uint32_t shard) {
  shards_[shard] = Shard();
  shards_[shard].away = true;
  // What is applied counts from the version that it comes back with.
  version_.reset();
}

// ---- orders ------------------------------------------------------------------

std::optional<uint64_t> CheckpointSchedule::LowestVersion() const {
  const bool all = std::ranges::all_of(shards_, [](const Shard& shard) { return shard.seen; });
  if (!all || shards_.empty()) {
    return std::nullopt;
  }
  return std::ranges::min_element(shards_, {}, &Shard::version)->version;
}

std::optional<uint64_t> CheckpointSchedule::Applied() const {
  const std::optional<uint64_t> lowest = LowestVersion();
  return lowest && version_ && *lowest > *version_ ? std::optional(*lowest - *version_)
                                                   : std::nullopt;
}

std::optional<std::string> CheckpointSchedule::Wanted(Activity activity, absl::Duration started,
                                                      absl::Duration now) const {
  // The numbers that a shard has given by itself are known once it shows its slice.
  const bool all_here = std::ranges::none_of(shards_, &Shard::away);
  if (config_.off() || under_way() || activity == Activity::kBusy || !all_here) {
    return std::nullopt;
  }
  if (activity == Activity::kOver) {
    return state().at_end() && state().last() > 0 ? std::nullopt : std::optional(kAtEnd);
  }
  // After the last one there is nothing new.
  if (state().requested() > state().held() && !last_is_held()) {
    return reason_.empty() ? kAskedFor : reason_;
  }
  const absl::Duration passed =
      now - (state().has_context() ? FromNanos(state().ordered_ns()) : started);
  const absl::Duration took = FromNanos(state().held_ns() - state().held_ordered_ns());
  const int share = waiting_.empty() ? kCheckpointShare : kWaitingShare;
  const bool trains = activity == Activity::kTrains || activity == Activity::kBatch;
  if (trains && passed < share * took) {
    return std::nullopt;
  }
  // While it trains, a worker that says so needs one after the other: what it keeps grows
  // on, and a push is durable with the second generation that holds it.
  const auto unserved = [this](const auto& entry) { return !OrderedSince(entry.second); };
  if (activity == Activity::kTrains ? !waiting_.empty() : std::ranges::any_of(waiting_, unserved)) {
    return kWorkerWaits;
  }
  const std::optional<uint64_t> applied = Applied();
  const bool changed = activity == Activity::kBatch || (activity == Activity::kTrains && applied);
  if (!changed) {
    return std::nullopt;
  }
  if (passed >= absl::Seconds(config_.every_seconds())) {
    return absl::StrCat("every ", config_.every_seconds(), " s");
  }
  if (applied && config_.every_pushes() > 0 && *applied >= config_.every_pushes()) {
    return absl::StrCat("every ", config_.every_pushes(), " pushes");
  }
  return std::nullopt;
}

void CheckpointSchedule::Order(CheckpointContext context, bool at_end, absl::Duration now) {
  CHECK(!under_way());
  // A shard takes no number below one that it has, whoever gave that.
  uint64_t generation = state().last();
  for (const Shard& shard : shards_) {
    generation = std::max(generation, shard.generation);
  }
  ++generation;
  writer_.Make([&](StateUpdate* update) {
    CheckpointOrdered* const order = update->mutable_checkpoint_ordered();
    order->set_generation(generation);
    order->set_at_ns(ToNanos(now));
    order->set_at_end(at_end);
    *order->mutable_context() = std::move(context);
  });
  for (Shard& shard : shards_) {
    shard.in_flight = false;
    shard.not_before = now;
  }
  version_ = LowestVersion();
  look_pause_ = kFirstLook;
  next_look_ = now + look_pause_;
}

void CheckpointSchedule::Abandon() {
  if (under_way()) {
    writer_.Make([](StateUpdate* update) { update->mutable_checkpoint_abandoned(); });
    error_.clear();
  }
}

void CheckpointSchedule::GiveUp(const std::string& reason) {
  writer_.Make(
      [&](StateUpdate* update) { update->mutable_storage_given_up()->set_reason(reason); });
  waiting_.clear();
}

uint64_t CheckpointSchedule::Request(bool over, const std::string& reason, uint64_t generations) {
  const uint64_t generation = over && state().at_end() ? state().last() : state().last() + 1;
  const uint64_t newest = generation + generations - 1;
  if (newest > state().requested() && newest > state().held()) {
    reason_ = reason;
    writer_.Make([&](StateUpdate* update) {
      update->mutable_checkpoint_requested()->set_generation(newest);
    });
  }
  return generation;
}

void CheckpointSchedule::NoteLeft(LeftSession session,
                                  const google::protobuf::RepeatedField<uint64_t>& generations) {
  session.set_generation(generations.empty() ? 0 : std::ranges::max(generations));
  const auto& known = state().left_by();
  bool newer = generations.size() > known.size();
  for (int i = 0; i < std::min(generations.size(), known.size()); ++i) {
    newer = newer || generations[i] > known[i];
  }
  // What the older of a shard's two generations holds no shard can lose.
  const bool may_be_lost = session.pushes() > 0 && session.generation() > state().held_before();
  const bool told = std::ranges::any_of(state().left(), [&](const LeftSession& left) {
    return left.worker() == session.worker() && left.incarnation() == session.incarnation() &&
           left.pushes() == session.pushes() && left.generation() >= session.generation();
  });
  if (newer || (may_be_lost && !told)) {
    writer_.Make([&](StateUpdate* update) {
      *update->mutable_session_durable()->mutable_generation() = generations;
      if (may_be_lost) {
        *update->mutable_session_durable()->mutable_session() = std::move(session);
      }
    });
  }
}

bool CheckpointSchedule::OrderedSince(absl::Duration time) const {
  return state().has_context() && FromNanos(state().ordered_ns()) >= time;
}

void CheckpointSchedule::NoteWaiting(uint32_t worker, bool waits, absl::Duration now) {
  if (!waits) {
    waiting_.erase(worker);
    return;
  }
  const auto entry = waiting_.try_emplace(worker, now).first;
  const bool seen = !under_way() && now - FromNanos(state().held_ns()) >= kSeenAfter;
  if (OrderedSince(entry->second) && seen) {
    entry->second = now;
  }
}

std::vector<uint32_t> CheckpointSchedule::Due(bool ended, absl::Duration now) {
  std::vector<uint32_t> due;
  if (!under_way() || (ended && state().requested() < state().ordered())) {
    return due;
  }
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    Shard& shard = shards_[i];
    const bool has_it = shard.generation >= state().ordered();
    if (!has_it && !shard.away && !shard.in_flight && now >= shard.not_before) {
      shard.in_flight = true;
      due.push_back(i);
    }
  }
  return due;
}

// ---- what shards say ---------------------------------------------------------

void CheckpointSchedule::OnResult(uint32_t shard, uint64_t generation, const absl::Status& status,
                                  absl::Duration now) {
  if (generation != state().ordered()) {
    return;
  }
  shards_[shard].in_flight = false;
  shards_[shard].not_before = now + kOrderRetry;
  if (!status.ok() && !IsUnreached(status)) {
    NoteError(shard, std::string(status.message()));
  }
}

void CheckpointSchedule::NoteShard(uint32_t shard, const ShardJobStatus& status,
                                   absl::Duration now) {
  Shard& known = shards_[shard];
  known.seen = true;
  known.away = false;
  known.generation = status.generation();
  known.version = status.version_min();
  if (!version_) {
    version_ = LowestVersion();
  }
  if (!under_way()) {
    return;
  }
  if (known.generation < state().ordered() && !status.checkpoint_error().empty()) {
    NoteError(shard, status.checkpoint_error());
  }
  const auto held = [this](const Shard& each) { return each.generation >= state().ordered(); };
  if (std::ranges::all_of(shards_, held)) {
    Hold(now);
  }
}

void CheckpointSchedule::KeepToTold(uint32_t shard) {
  const int index = static_cast<int>(shard);
  google::protobuf::RepeatedField<uint64_t> known = state().left_by();
  known.Resize(static_cast<int>(shards_.size()), 0);
  if (shards_[shard].generation > std::max(known[index], state().held())) {
    known[index] = shards_[shard].generation;
    writer_.Make([&](StateUpdate* update) {
      *update->mutable_session_durable()->mutable_generation() = std::move(known);
    });
  }
}

void CheckpointSchedule::Hold(absl::Duration now) {
  const uint64_t before = state().held();
  held_ordered_at_ = FromNanos(state().ordered_ns());
  writer_.Make([&](StateUpdate* update) {
    update->mutable_checkpoint_held()->set_generation(state().ordered());
    update->mutable_checkpoint_held()->set_at_ns(ToNanos(now));
  });
  const bool asked_for = state().requested() > before && state().requested() <= state().held();
  if (before == 0 || asked_for || state().at_end() || !error_.empty()) {
    events_.push_back(
        {"checkpoint", "",
         absl::StrCat("generation ", state().held(), " is on the disk of all shards (",
                      state().context().reason(), ")")});
  }
  error_.clear();
}

void CheckpointSchedule::NoteError(uint32_t shard, const std::string& error) {
  const bool first = error_.empty();
  const std::string task = absl::StrCat("ps/", shard);
  error_ = absl::StrCat(task, ": ", error);
  if (first) {
    events_.push_back({"checkpoint_failed", task,
                       absl::StrCat("generation ", state().ordered(),
                                    " cannot be written, and is tried again: ", error)});
  }
}

bool CheckpointSchedule::WantsPoll(absl::Duration now) {
  if (!under_way() || now < next_look_ || look_pause_ > kLastLook) {
    return false;
  }
  look_pause_ *= 2;
  next_look_ = now + look_pause_;
  return true;
}

std::vector<CheckpointSchedule::Event> CheckpointSchedule::TakeEvents() {
  return std::exchange(events_, {});
}

}  // namespace monsoon
