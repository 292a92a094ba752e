#include "coordinator/synchronous/group_members.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/job/replica_set.h"

namespace monsoon {
namespace {

bool Same(const SynchronousPosition& a, const SynchronousPosition& b) {
  return a.updates() == b.updates() && a.batches() == b.batches();
}

}  // namespace

std::string NamesOf(const SynchronousGroup& group) {
  return absl::StrJoin(group.member(), ", ",
                       [](std::string* out, const NextWorkReply::GroupMember& member) {
                         absl::StrAppend(out, WorkerName(member.worker()));
                       });
}

bool GroupMembers::Take(uint32_t worker, const SynchronousReport& report) {
  Member& member = members_[worker];
  member.report = report;
  const bool present = report.group() == group().generation() && report.group() > 0;
  member.rests = !present || !report.broken().empty() ||
                 (report.has_at() && report.at().batches() == group().until_batches());
  return present && InGroup(worker);
}

std::set<uint32_t> GroupMembers::Present() const {
  std::set<uint32_t> present;
  for (const auto& [worker, member] : members_) {
    if (member.report || InGroup(worker)) {
      present.insert(worker);
    }
  }
  return present;
}

bool GroupMembers::AllRest() const {
  const std::set<uint32_t> present = Present();
  return !present.empty() &&
         std::ranges::all_of(present, [this](uint32_t each) { return members_.at(each).rests; });
}

bool GroupMembers::AnyHasState() const {
  return std::ranges::any_of(members_, [](const auto& each) {
    return each.second.report && each.second.report->has_at();
  });
}

bool GroupMembers::InGroup(uint32_t worker) const {
  return std::ranges::find(group().member(), worker, &NextWorkReply::GroupMember::worker) !=
         group().member().end();
}

bool GroupMembers::IsBroken() const {
  return std::ranges::any_of(group().member(), [this](const NextWorkReply::GroupMember& each) {
    const auto found = members_.find(each.worker());
    if (found == members_.end()) {
      return true;
    }
    const auto& report = found->second.report;
    return report && report->group() == group().generation() && !report->broken().empty();
  });
}

bool GroupMembers::IsChanging() const {
  return group().member_size() != static_cast<int>(Present().size());
}

uint64_t GroupMembers::BatchesOfStep() const {
  uint64_t batches = 0;
  for (const NextWorkReply::GroupMember& member : group().member()) {
    batches += member.batches();
  }
  return std::max<uint64_t>(batches, 1);
}

SynchronousGroup GroupMembers::Next(const SynchronousPosition& stored) const {
  SynchronousGroup next;
  uint64_t newest = group().generation();
  const SynchronousReport* source = nullptr;
  std::vector<const SynchronousReport*> reports;
  for (const uint32_t worker : Present()) {
    const SynchronousReport& report = *members_.at(worker).report;
    if (report.has_at() && (source == nullptr || report.at().batches() > source->at().batches())) {
      source = &report;
      next.set_source(static_cast<uint32_t>(next.member_size()));
    }
    NextWorkReply::GroupMember* const member = next.add_member();
    member->set_worker(worker);
    member->set_address(report.address());
    *member->mutable_shared_memory() = report.shared_memory();
    member->set_batches(std::max(1u, report.batches()));
    member->set_caller(report.caller());
    reports.push_back(&report);
    // Their processes may have been in groups of other jobs, with numbers of their own.
    newest = std::max(newest, report.newest_group());
  }
  next.set_generation(newest + 1);
  *next.mutable_from() = source != nullptr ? source->at() : stored;
  next.set_share(std::ranges::any_of(reports, [&](const SynchronousReport* report) {
    return !report->has_at() || !Same(report->at(), next.from());
  }));
  next.set_until_batches(next.from().batches());
  return next;
}

bool GroupMembers::IsTold(uint32_t worker) const {
  const Member& member = members_.at(worker);
  return member.told_group == group().generation() && member.told_until == group().until_batches();
}

void GroupMembers::Tell(uint32_t worker, NextWorkReply::Synchronize* order) {
  order->set_group(group().generation());
  *order->mutable_member() = group().member();
  if (group().has_source()) {
    order->set_source(group().source());
  }
  order->set_share(group().share());
  *order->mutable_from() = group().from();
  order->set_until_batches(group().until_batches());
  const auto place =
      std::ranges::find(group().member(), worker, &NextWorkReply::GroupMember::worker);
  order->set_rank(static_cast<uint32_t>(place - group().member().begin()));
  Member& member = members_.at(worker);
  member.told_group = group().generation();
  member.told_until = group().until_batches();
  member.rests = false;
}

}  // namespace monsoon
