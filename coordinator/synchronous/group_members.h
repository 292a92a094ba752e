// GroupMembers: what the replicas of a synchronous job have told last, as to its group: who is
// ready for one, who has nothing to do, whether the present group is broken, and which the next one
// is.
//
// A pure state machine beside the job's durable state, from which it reads the present group. Not
// thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

class GroupMembers {
 public:
  explicit GroupMembers(const JobWriter& writer) : writer_(writer) {}

  void Add(uint32_t worker) { members_[worker] = Member(); }
  void Remove(uint32_t worker) { members_.erase(worker); }
  // Whether `report` is of the present group, and of one of its members.
  bool Take(uint32_t worker, const SynchronousReport& report);

  // Members of the present group, and those who are ready: a replica that reads its data first
  // holds nobody up.
  std::set<uint32_t> Present() const;
  // All of these have nothing to do, as they have said; there is one.
  bool AllRest() const;
  bool AnyHasState() const;

  bool InGroup(uint32_t worker) const;
  // A member is gone, or has told that the group is over for it.
  bool IsBroken() const;
  // Others are present than its members.
  bool IsChanging() const;
  uint64_t BatchesOfStep() const;

  // All who are present, with the furthest state; `stored`: what those without any go on from.
  SynchronousGroup Next(const SynchronousPosition& stored) const;

  // The member knows of all that is leased.
  bool IsTold(uint32_t worker) const;
  // Fills in all but what is to be written.
  void Tell(uint32_t worker, NextWorkReply::Synchronize* order);

 private:
  struct Member {
    std::optional<SynchronousReport> report;
    // It has nothing to do, as it said when it asked, and was given nothing since.
    bool rests = false;
    uint64_t told_group = 0;
    uint64_t told_until = 0;  // of that
  };

  const SynchronousGroup& group() const { return writer_.job().synchronous().group(); }

  const JobWriter writer_;
  std::map<uint32_t, Member> members_;
};

// "worker/0, worker/2".
std::string NamesOf(const SynchronousGroup& group);

}  // namespace monsoon
