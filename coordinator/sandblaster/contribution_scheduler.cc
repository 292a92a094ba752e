#include "coordinator/sandblaster/contribution_scheduler.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace monsoon {
namespace {

// Weight of the newest duration in the usual one: about the last 5 count.
constexpr double kNewest = 0.2;

// A duration of 0 would mean that it is not known.
constexpr double kShortest = 1e-9;

}  // namespace

void ContributionScheduler::AddReplica(uint32_t worker) {
  const auto [replica, inserted] = replicas_.try_emplace(worker);
  CHECK(inserted);
  if (open_) {
    replica->second.run = AddRun(0, 0);  // It takes half of another's.
  }
}

uint32_t ContributionScheduler::RemoveReplica(uint32_t worker, absl::Duration now) {
  const auto found = replicas_.find(worker);
  CHECK(found != replicas_.end());
  uint32_t again = 0;
  while (!found->second.held.empty()) {
    const uint32_t contribution = found->second.held.back();
    CHECK(Detach(worker, contribution, now));
    again += GiveUp(contribution);
  }
  // Its run is nobody's: the others take halves of it.
  replicas_.erase(found);
  return again;
}

void ContributionScheduler::Begin(uint64_t evaluation, uint32_t contributions) {
  CHECK(!open_ && contributions > 0);
  open_ = true;
  evaluation_ = evaluation;
  progress_ = {contributions, 0, 0};
  items_.assign(contributions, Item{});
  const auto rate = [this](uint32_t worker) {
    const double seconds = Usual(worker);
    return seconds > 0 ? 1 / seconds : 1;
  };
  double total = 0;
  for (const auto& [worker, replica] : replicas_) {
    total += rate(worker);
  }
  double sum = 0;
  uint32_t begin = 0;
  for (auto& [worker, replica] : replicas_) {
    sum += rate(worker);
    const auto end = static_cast<uint32_t>(std::lround(contributions * std::min(1.0, sum / total)));
    replica.run = AddRun(begin, end);
    begin = end;
  }
  if (begin < contributions) {
    AddRun(begin, contributions);
  }
}

void ContributionScheduler::End() {
  open_ = false;
  progress_.outstanding = 0;
  for (auto& [worker, replica] : replicas_) {
    replica.held.clear();
    replica.last.reset();
  }
  items_.clear();
  runs_.clear();
  longest_.clear();
  again_.clear();
  due_.clear();
  expiry_.clear();
}

size_t ContributionScheduler::AddRun(uint32_t begin, uint32_t end) {
  runs_.push_back({begin, end});
  if (begin < end) {
    longest_.emplace(end - begin, runs_.size() - 1);
  }
  return runs_.size() - 1;
}

uint32_t ContributionScheduler::TakeFront(size_t index) {
  Run& run = runs_[index];
  longest_.erase({run.end - run.next, index});
  const uint32_t taken = run.next++;
  if (run.next < run.end) {
    longest_.emplace(run.end - run.next, index);
  }
  return taken;
}

std::optional<uint32_t> ContributionScheduler::TakeFresh(Replica* replica) {
  if (!again_.empty()) {
    const uint32_t taken = *again_.begin();
    again_.erase(again_.begin());
    return taken;
  }
  if (runs_[replica->run].next == runs_[replica->run].end) {
    if (longest_.empty()) {
      return std::nullopt;
    }
    const auto [length, index] = *longest_.rbegin();
    const uint32_t end = runs_[index].end;
    const uint32_t middle = end - (length + 1) / 2;
    longest_.erase({length, index});
    runs_[index].end = middle;
    if (runs_[index].next < middle) {
      longest_.emplace(middle - runs_[index].next, index);
    }
    replica->run = AddRun(middle, end);
  }
  return TakeFront(replica->run);
}

std::optional<uint32_t> ContributionScheduler::PickCopy(uint32_t worker, absl::Duration now) const {
  if (backup_copies_ && !due_.empty()) {
    if (due_.begin()->first <= now) {
      return due_.begin()->second;
    }
    if (due_.rbegin()->first > now + absl::Seconds(kDueSlack * Usual(worker))) {
      return due_.rbegin()->second;
    }
  }
  if (!expiry_.empty() && expiry_.begin()->first <= now) {
    return expiry_.begin()->second;
  }
  return std::nullopt;
}

std::optional<uint32_t> ContributionScheduler::Next(uint32_t worker, absl::Duration now) {
  const auto found = replicas_.find(worker);
  CHECK(found != replicas_.end());
  Replica& replica = found->second;
  if (!open_ || replica.held.size() >= kMaxHeld) {
    return std::nullopt;
  }
  std::optional<uint32_t> taken = TakeFresh(&replica);
  if (taken) {
    ++progress_.outstanding;
  } else if (replica.held.empty()) {
    // Holding nothing, it cannot hold a copy of what it is given.
    taken = PickCopy(worker, now);
    statistics_.backup_copies += taken.has_value();
  }
  if (!taken) {
    return std::nullopt;
  }
  if (replica.held.empty()) {
    replica.start = now;
  }
  replica.held.push_back(*taken);
  items_[*taken].holders.push_back(worker);
  File(*taken);
  ++statistics_.leases;
  statistics_.continuing_leases += replica.last && *replica.last + 1 == *taken;
  replica.last = taken;
  return taken;
}

ContributionScheduler::Outcome ContributionScheduler::Complete(uint32_t worker, uint64_t evaluation,
                                                               uint32_t contribution,
                                                               absl::Duration now) {
  const auto found = replicas_.find(worker);
  const bool current = open_ && evaluation == evaluation_;
  if (current && found != replicas_.end() && !found->second.held.empty() &&
      found->second.held.front() == contribution) {
    Observe(worker, now - found->second.start);
  }
  if (!current || !Detach(worker, contribution, now)) {
    if (found != replicas_.end()) {
      Restart(&found->second, now);  // Until now it was busy with this one.
    }
    ++statistics_.late_results;
    return Outcome::kLate;
  }
  Item& item = items_[contribution];
  if (item.done) {
    ++statistics_.second_results;
    return Outcome::kSecondCopy;
  }
  item.done = true;
  Unfile(contribution);
  --progress_.outstanding;
  ++progress_.done;
  ++history_[worker].counted;
  return Outcome::kFirst;
}

ContributionScheduler::Outcome ContributionScheduler::Return(uint32_t worker, uint64_t evaluation,
                                                             uint32_t contribution,
                                                             absl::Duration now) {
  if (!open_ || evaluation != evaluation_ || !Detach(worker, contribution, now)) {
    ++statistics_.late_results;
    return Outcome::kLate;
  }
  GiveUp(contribution);
  return items_[contribution].done ? Outcome::kSecondCopy : Outcome::kFirst;
}

bool ContributionScheduler::Detach(uint32_t worker, uint32_t contribution, absl::Duration now) {
  const auto found = replicas_.find(worker);
  if (found == replicas_.end()) {
    return false;
  }
  Replica& replica = found->second;
  const auto held = std::find(replica.held.begin(), replica.held.end(), contribution);
  if (held == replica.held.end()) {
    return false;
  }
  replica.held.erase(held);
  auto& holders = items_[contribution].holders;
  holders.erase(std::find(holders.begin(), holders.end(), worker));
  Restart(&replica, now);
  return true;
}

bool ContributionScheduler::GiveUp(uint32_t contribution) {
  const Item& item = items_[contribution];
  if (item.done) {
    return false;
  }
  if (!item.holders.empty()) {
    File(contribution);  // The other copy is the only one now.
    return false;
  }
  Unfile(contribution);
  again_.insert(contribution);
  --progress_.outstanding;
  ++statistics_.leased_again;
  return true;
}

void ContributionScheduler::Restart(Replica* replica, absl::Duration now) {
  replica->start = now;
  for (const uint32_t contribution : replica->held) {
    File(contribution);
  }
}

void ContributionScheduler::File(uint32_t contribution) {
  Item& item = items_[contribution];
  if (item.done) {
    return;
  }
  Unfile(contribution);
  item.expiry = -absl::InfiniteDuration();
  for (const uint32_t worker : item.holders) {
    const Replica& replica = replicas_.at(worker);
    const auto place = static_cast<double>(
        std::find(replica.held.begin(), replica.held.end(), contribution) - replica.held.begin());
    const absl::Duration usual = absl::Seconds(Usual(worker));
    const absl::Duration begin = replica.start + kDueSlack * place * usual;
    item.due = begin + kDueSlack * usual;
    item.expiry = std::max(item.expiry, begin + std::max(kExpiry * usual, kMinExpiry));
  }
  expiry_.emplace(item.expiry, contribution);
  if (item.holders.size() == 1) {
    due_.emplace(item.due, contribution);
  }
}

void ContributionScheduler::Unfile(uint32_t contribution) {
  const Item& item = items_[contribution];
  expiry_.erase({item.expiry, contribution});
  due_.erase({item.due, contribution});
}

void ContributionScheduler::Observe(uint32_t worker, absl::Duration took) {
  double& usual = history_[worker].seconds;
  double seconds = std::max(absl::ToDoubleSeconds(took), kShortest);
  if (usual > 0) {
    // One long pause is no slow replica.
    seconds = usual + kNewest * (std::min(seconds, kExpiry * usual) - usual);
    known_seconds_ += seconds - usual;
  } else {
    known_seconds_ += seconds;
    ++known_;
  }
  usual = seconds;
}

double ContributionScheduler::Usual(uint32_t worker) const {
  if (const auto found = history_.find(worker);
      found != history_.end() && found->second.seconds > 0) {
    return found->second.seconds;
  }
  return known_ > 0 ? known_seconds_ / known_ : 0;
}

size_t ContributionScheduler::held(uint32_t worker) const {
  const auto found = replicas_.find(worker);
  return found == replicas_.end() ? 0 : found->second.held.size();
}

uint64_t ContributionScheduler::counted_by(uint32_t worker) const {
  const auto found = history_.find(worker);
  return found == history_.end() ? 0 : found->second.counted;
}

}  // namespace monsoon
