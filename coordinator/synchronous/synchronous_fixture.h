// A synchronous job, members that keep to what they are told, and shards that store: call by call,
// without threads or floats. A member's state is the list of the steps that made it, so that two
// states are the same if and only if the same gradients are in them, in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"
#include "coordinator/synchronous/synchronous_job.h"
#include "coordinator/synchronous/synchronous_options.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

// The batches [first, second) of a step.
using TestedSteps = std::vector<std::pair<uint64_t, uint64_t>>;

struct TestedState {
  SynchronousPosition at;
  TestedSteps steps;
};

struct TestedMember {
  uint64_t request = 0;
  std::optional<TestedState> state;
  NextWorkReply::Synchronize order;
  bool joined = false;
  bool in_group = false;
  std::string broken;
  uint32_t waited_ms = 0;     // before it broke
  uint64_t newest_group = 0;  // of its process, with an earlier job
  std::optional<SynchronousPosition> all_at;
  uint64_t written = 0;
  std::optional<TestedState> writing;  // under order.write()
  std::optional<SynchronousPosition> written_at;
  std::optional<uint64_t> evaluation;
  bool finished = false;

  bool runs() const { return in_group && joined && state->at.batches() < order.until_batches(); }
};

class TestedGroup {
 public:
  explicit TestedGroup(const SynchronousOptions& options) : options_(options) { Restart(); }

  // The coordinator is started anew, with what is durable.
  void Restart() {
    if (!begun_) {
      state_.Begun(SYNCHRONOUS);
      begun_ = true;
    }
    job_ = std::make_unique<SynchronousJob>(options_, state_.Job());
    job_->stored()->NoteStored(Stored());
  }

  SynchronousJob& job() { return *job_; }
  const SynchronousState& durable() { return state_.Job().job().synchronous(); }
  std::map<uint32_t, TestedMember>& members() { return members_; }
  TestedMember& at(uint32_t worker) { return members_.at(worker); }
  void Pass(absl::Duration by) {
    now_ += by;
    job_->stored()->NoteStored(Stored());
    job_->Tick(now_);
  }

  void Add(uint32_t worker) {
    members_[worker] = TestedMember();
    job_->AddReplica(worker, now_);
  }
  // `members` come, with numbers from 0, and are the first group, which may take a step.
  void Gather(uint32_t members) {
    for (uint32_t worker = 0; worker < members; ++worker) {
      Add(worker);
    }
    // The last one's first question forms the group.
    for (uint32_t question = 0; question < 2 * members - 1; ++question) {
      Ask(question % members);
    }
  }
  // `worker` is lost. The step that its group is at ends for those of `whole`, who had all
  // gradients; for the others it breaks.
  void Lose(uint32_t worker, const std::vector<uint32_t>& whole = {}) {
    const TestedMember lost = members_.at(worker);
    members_.erase(worker);
    for (auto& [each, member] : members_) {
      const auto& group = member.order.member();
      const bool with_it =
          std::ranges::find(group, worker, &NextWorkReply::GroupMember::worker) != group.end();
      if (!member.in_group || !with_it) {
        continue;
      }
      const bool at_step = lost.in_group && lost.order.group() == member.order.group();
      if (at_step && member.runs() && std::ranges::find(whole, each) != whole.end()) {
        Take(&member);
      }
      Break(&member, worker);
    }
    job_->RemoveReplica(worker, now_);
  }

  // Asks for work, and begins with what is told.
  NextWorkReply Ask(uint32_t worker) {
    TestedMember& member = members_.at(worker);
    NextWorkRequest request;
    request.set_request(++member.request);
    SynchronousReport& report = *request.mutable_synchronous();
    report.set_address("host:1");
    report.set_batches(1);
    report.set_group(member.order.group());
    report.set_broken(member.broken);
    report.set_waited_ms(member.waited_ms);
    report.set_newest_group(member.newest_group);
    if (member.state) {
      *report.mutable_at() = member.state->at;
    }
    if (member.all_at) {
      *report.mutable_all_at() = *member.all_at;
    }
    report.set_written(member.written);
    if (member.written_at) {
      *report.mutable_written_at() = *member.written_at;
    }
    absl::StatusOr<NextWorkReply> reply =
        job_->NextWork(worker, request, now_, JobProcedure::OnWait::kTell);
    EXPECT_OK(reply);
    Begin(worker, *reply);
    job_->stored()->NoteStored(Stored());
    return *reply;
  }

  // What a member does when it has a moment: it writes, or tests.
  void Work(uint32_t worker) {
    TestedMember& member = members_.at(worker);
    if (member.evaluation) {
      ReportEvaluationRequest request;
      request.set_evaluation(*std::exchange(member.evaluation, std::nullopt));
      request.set_examples(100);
      request.set_correct(50);
      request.set_loss_sum(50);
      EXPECT_OK(job_->ReportEvaluation(worker, request, now_));
    }
    if (member.writing) {
      staged_ = std::exchange(member.writing, std::nullopt);
      staged_number_ = member.order.write();
      member.written = staged_number_;
      member.written_at = staged_->at;
    }
  }
  // The group's beginning, or a step, for all its members at once. False: it is not the time.
  bool Step() {
    std::vector<TestedMember*> group = Group();
    if (group.empty()) {
      return false;
    }
    if (!group.front()->joined) {
      return Join(group);
    }
    for (TestedMember* const member : group) {
      if (!member->runs()) {
        return false;
      }
    }
    for (TestedMember* const member : group) {
      Take(member);
    }
    return true;
  }
  // Shards adopt what was written; false: they had.
  bool Adopt() {
    if (Stored() || !staged_ || durable().written() != staged_number_) {
      return false;
    }
    stored_ = *staged_;
    job_->stored()->NoteStored(true);
    return true;
  }
  const TestedState& stored() const { return stored_; }

  // Drives everything until the job is done, or no more than so many rounds.
  void Finish(int rounds = 10'000) {
    for (int i = 0; i < rounds && job_->phase() != JobProcedure::Phase::kDone; ++i) {
      for (auto& [worker, member] : members_) {
        if (!member.finished && !member.runs()) {
          Ask(worker);
          Work(worker);
        }
      }
      while (Step()) {
      }
      Adopt();
      Pass(absl::Milliseconds(100));
    }
    ASSERT_EQ(job_->phase(), JobProcedure::Phase::kDone) << Describe();
  }

 private:
  bool Stored() {
    return durable().written() == 0 || durable().written_at().updates() == stored_.at.updates();
  }

  // All members of the newest group, if each has been told of it.
  std::vector<TestedMember*> Group() {
    const SynchronousGroup& group = durable().group();
    std::vector<TestedMember*> all;
    for (const NextWorkReply::GroupMember& one : group.member()) {
      const auto found = members_.find(one.worker());
      if (found == members_.end() || !found->second.in_group ||
          found->second.order.group() != group.generation()) {
        return {};
      }
      all.push_back(&found->second);
    }
    return all;
  }

  bool Join(const std::vector<TestedMember*>& group) {
    const NextWorkReply::Synchronize& order = group.front()->order;
    const TestedState from = order.has_source() ? *group[order.source()]->state : stored_;
    EXPECT_EQ(from.at.updates(), order.from().updates());
    for (TestedMember* const member : group) {
      if (order.share() || !order.has_source()) {
        member->state = from;
      }
      // What nobody sends, all have.
      EXPECT_EQ(member->state->steps, from.steps);
      member->joined = true;
      if (member->order.write() > member->written && !member->writing) {
        member->writing = member->state;
      }
    }
    return true;
  }

  std::string Describe() {
    std::string text = durable().ShortDebugString();
    for (const auto& [worker, member] : members_) {
      text += "\n worker/" + std::to_string(worker) + " in " + std::to_string(member.in_group) +
              " joined " + std::to_string(member.joined) + " broken " + member.broken + " at " +
              (member.state ? member.state->at.ShortDebugString() : "-") + " order " +
              member.order.ShortDebugString();
    }
    return text;
  }

  static void Take(TestedMember* member) {
    TestedState& state = *member->state;
    member->all_at = state.at;
    uint64_t batches = 0;
    for (const NextWorkReply::GroupMember& each : member->order.member()) {
      batches += each.batches();
    }
    const uint64_t from = state.at.batches();
    const uint64_t to = std::min(from + batches, member->order.until_batches());
    state.steps.emplace_back(from, to);
    state.at.set_updates(state.at.updates() + 1);
    state.at.set_batches(to);
  }

  static void Break(TestedMember* member, uint32_t missing) {
    member->broken = "worker/" + std::to_string(missing) + " is gone";
    member->in_group = false;
  }

  void Begin(uint32_t worker, const NextWorkReply& reply) {
    TestedMember& member = members_.at(worker);
    member.finished |= reply.has_finish();
    if (reply.has_evaluate()) {
      member.evaluation = reply.evaluate().evaluation();
    }
    if (!reply.has_synchronize()) {
      return;
    }
    const NextWorkReply::Synchronize& order = reply.synchronize();
    if (order.group() != member.order.group()) {
      member.joined = false;
      member.in_group = true;
      member.broken.clear();
      member.all_at.reset();
      // Others of the old group notice that this one has left it.
      for (auto& [each, other] : members_) {
        if (each != worker && other.in_group && other.order.group() < order.group()) {
          Break(&other, worker);
        }
      }
      member.order = order;
    } else if (member.in_group) {
      member.order.set_until_batches(std::max(member.order.until_batches(), order.until_batches()));
    }
    if (order.write() > 0) {
      member.order.set_write(order.write());
      if (member.joined) {
        member.writing = member.state;
      }
    }
  }

  const SynchronousOptions options_;
  ReplayedState state_;
  bool begun_ = false;
  std::unique_ptr<SynchronousJob> job_;
  std::map<uint32_t, TestedMember> members_;
  TestedState stored_;
  std::optional<TestedState> staged_;
  uint64_t staged_number_ = 0;
  absl::Duration now_ = absl::Seconds(1000);
};

}  // namespace monsoon::testing
