#include "absl/strings/string_view.h"
#include "coordinator/state/apply.h"

namespace monsoon::internal {
namespace {

absl::Status Refuse(absl::string_view why) { return absl::FailedPreconditionError(why); }

absl::Status FormGroup(const SynchronousGroup& group, SynchronousState* state) {
  if (group.generation() <= state->group().generation() || group.member().empty()) {
    return Refuse("a group has members, and a generation above all before");
  }
  *state->mutable_group() = group;
  state->set_stood_ns(state->stood_ns() + group.stood_ns());
  // A step that only those who are gone had taken is taken again; and where nobody is left who has
  // any, all go on from what the shards store.
  *state->mutable_done() = group.from();
  return absl::OkStatus();
}

absl::Status Lease(const GroupLeased& lease, SynchronousState* state) {
  if (lease.until_batches() < state->group().until_batches()) {
    return Refuse("a lease never goes back");
  }
  state->mutable_group()->set_until_batches(lease.until_batches());
  return absl::OkStatus();
}

absl::Status Note(const SynchronousPosition& done, SynchronousState* state) {
  if (done.updates() < state->done().updates() || done.batches() < state->done().batches() ||
      done.batches() > state->group().until_batches()) {
    return Refuse("what is done never goes back, nor beyond what is leased");
  }
  *state->mutable_done() = done;
  return absl::OkStatus();
}

absl::Status Write(const StateWritten& written, SynchronousState* state) {
  if (written.number() <= state->written() || written.number() > state->writes()) {
    return Refuse("no such write is under way");
  }
  state->set_written(written.number());
  *state->mutable_written_at() = written.at();
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyToSynchronous(const StateUpdate& update, SynchronousState* state) {
  switch (update.change_case()) {
    case StateUpdate::kGroupFormed:
      return FormGroup(update.group_formed(), state);
    case StateUpdate::kGroupLeased:
      return Lease(update.group_leased(), state);
    case StateUpdate::kGroupDone:
      return Note(update.group_done(), state);
    case StateUpdate::kGroupBroken:
      state->set_broken(state->broken() + 1);
      state->set_retaken(state->retaken() + (update.group_broken().in_step() ? 1 : 0));
      return absl::OkStatus();
    case StateUpdate::kWriteBegun:
      if (update.write_begun().number() != state->writes() + 1) {
        return Refuse("writes have numbers one after another");
      }
      state->set_writes(update.write_begun().number());
      return absl::OkStatus();
    case StateUpdate::kStateWritten:
      return Write(update.state_written(), state);
    case StateUpdate::kSynchronousStopped:
      state->set_stopped(true);
      return absl::OkStatus();
    default:
      return Refuse("not of synchronous training");
  }
}

}  // namespace monsoon::internal
