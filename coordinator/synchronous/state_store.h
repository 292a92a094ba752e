// StateStore: which states the members of a synchronous job's group write to the shards, and when:
// every so many seconds, before the test set is run over a generation, at the end, and anew where a
// shard has lost one. A write has a number; it counts when all shards have it whole and every
// member has come as far, since a step that somebody lacks may be taken again, and be another one
// then.
//
// A pure state machine over the job's durable state. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "coordinator/job/stored_parameters.h"
#include "coordinator/state/state_writer.h"
#include "proto/coordinator.pb.h"
#include "proto/coordinator_state.pb.h"

namespace monsoon {

class StateStore final : public StoredParameters {
 public:
  StateStore(const JobWriter& writer, absl::Duration every) : writer_(writer), every_(every) {}

  void Begin(absl::Duration now) { due_ = now + every_; }
  // What a member of the group has told. What has gone wrong, for people; "": nothing.
  std::string Take(const SynchronousReport& report, absl::Duration now);
  // Whoever was to write is of a group that is over.
  void ForgetOrder() { ordered_ = false; }
  // What is done is to be stored as soon as may be.
  void SetUrgent(bool urgent) { urgent_ = urgent; }
  // No replica has a state of its own.
  void NoteNobodyHas(bool nobody) { nobody_has_ = nobody; }

  // A member is to write now.
  bool Wants(absl::Duration now) const;
  // It is told to, under this number.
  uint64_t Order();

  // The shards have what is done.
  bool has_all() const;
  // What a group without a state goes on from; nothing: the shards have not one state.
  std::optional<SynchronousPosition> from() const;

  void NoteStored(bool whole) override { whole_ = whole; }
  void NoteWriteLost() override { lost_ = true; }
  bool whole() const override { return whole_ && (!urgent_ || has_all()); }
  std::string waits_for() const override;

 private:
  const SynchronousState& state() const { return writer_.job().synchronous(); }

  const JobWriter writer_;
  const absl::Duration every_;
  bool whole_ = true;     // all shards have adopted the newest write
  bool lost_ = false;     // and some will not by itself
  bool ordered_ = false;  // one is under way
  bool urgent_ = false;
  bool nobody_has_ = false;
  absl::Duration due_;
  absl::Duration not_before_;
};

}  // namespace monsoon
