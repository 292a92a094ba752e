// TestSchedule: when a run over the test set is due and which replica does it. At
// most one is open at a time: DUE (nobody has it), then ASSIGNED, then recorded. A
// lost replica's run is due again.
//
// Over generations: a run that is due waits until a generation was ordered for it
// (UseGeneration) and is held, and is of that.
//
// A pure state machine over the job's durable state. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "coordinator/state/state_writer.h"

namespace monsoon {

class TestSchedule {
 public:
  // Every so many epochs; 0: only when RequestFinal is called. Its place is that of
  // `writer`'s procedure.
  TestSchedule(double every_epochs, bool over_generations, ProcedureWriter writer)
      : every_epochs_(every_epochs),
        over_generations_(over_generations),
        writer_(std::move(writer)) {}

  // Makes a run due when `epochs` (data that is done, in epochs) has
  // passed the next mark. Marks passed together count once.
  void NoteProgress(double epochs);
  // The same, but the marks that it passes make no run due: they were passed before.
  void PassOver(double epochs);
  // The mark that no progress has passed yet; nothing: there are none.
  std::optional<double> NextMark() const;
  // Drops a run that is due but not assigned: the final one comes.
  void DropDue();
  // The final run is due from now on, after the one that is assigned.
  void RequestFinal();

  // Whether `worker` has to do a run now: it has an assignment already, or one
  // is due and it is its turn (round robin over `live`, which holds `worker`).
  // Returns the run's id.
  std::optional<uint64_t> Assign(uint32_t worker, const std::set<uint32_t>& live);
  // Id, worker and kind of the run that is assigned.
  std::optional<uint64_t> assigned_id() const;
  std::optional<uint32_t> assigned_worker() const;
  bool assigned_final() const;

  // A run is due, and no generation was ordered for it.
  bool WantsGeneration() const;
  // That was ordered now, and will be of this run.
  void UseGeneration(uint64_t generation);
  // The newest that is held; 0: none.
  void NoteHeld(uint64_t generation);
  // What the run that is assigned is of; 0: the parameters as they are.
  uint64_t generation() const {
    return position().generation_is_held() && over_generations() ? position().generation() : 0;
  }
  // The generation that `worker` was to test is not there any more: another one is wanted.
  void LoseGeneration(uint32_t worker);

  // The result of `id` arrived. False when `id` is not assigned to `worker`.
  bool Complete(uint32_t worker, uint64_t id);
  // `worker` is gone; its run is due again.
  void Remove(uint32_t worker);

  bool final_done() const { return position().final_done(); }
  bool idle() const { return !position().due() && !position().has_assigned(); }

 private:
  const TestSchedulePosition& position() const { return writer_.state().test().schedule(); }
  // Changes a copy of the position by `change` and applies it.
  template <typename Change>
  void Update(Change change) const {
    TestSchedulePosition next = position();
    change(&next);
    writer_.Make([&](StateUpdate* update) { *update->mutable_test_schedule() = std::move(next); });
  }

  uint64_t MarksAt(double epochs) const;
  // A job that went on in memory only makes no generations any more.
  bool over_generations() const { return over_generations_ && writer_.job().memory_only().empty(); }

  const double every_epochs_;
  const bool over_generations_;
  const ProcedureWriter writer_;
};

}  // namespace monsoon
