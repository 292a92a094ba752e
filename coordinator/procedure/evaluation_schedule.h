// EvaluationSchedule: when a test-set evaluation is due and which replica does
// it. At most one is open at a time: DUE (nobody has it), then ASSIGNED, then
// recorded. A lost evaluator's evaluation is due again.
//
// A pure state machine. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

namespace monsoon {

class EvaluationSchedule {
 public:
  // Every so many epochs; 0: only when RequestFinal is called.
  explicit EvaluationSchedule(double every_epochs) : every_epochs_(every_epochs) {}

  // Makes an evaluation due when `epochs` (data that is done, in epochs) has
  // passed the next mark. Marks passed together count once.
  void NoteProgress(double epochs);
  // Drops an evaluation that is due but not assigned: the final one comes.
  void DropDue();
  // The final evaluation is due from now on, after the one that is assigned.
  void RequestFinal();

  // Whether `worker` has to evaluate now: it has an assignment already, or one
  // is due and it is its turn (round robin over `live`, which holds `worker`).
  // Returns the evaluation's id.
  std::optional<uint64_t> Assign(uint32_t worker, const std::set<uint32_t>& live);
  // Id, worker and kind of the evaluation that is assigned.
  std::optional<uint64_t> assigned_id() const;
  std::optional<uint32_t> assigned_worker() const;
  bool assigned_final() const { return final_requested_ && assigned_ && assigned_->final; }

  // The result of `id` arrived. False when `id` is not assigned to `worker`.
  bool Complete(uint32_t worker, uint64_t id);
  // `worker` is gone; its evaluation is due again.
  void Remove(uint32_t worker);

  bool final_done() const { return final_done_; }
  bool idle() const { return !due_ && !assigned_; }

 private:
  struct Assignment {
    uint64_t id = 0;
    uint32_t worker = 0;
    bool final = false;
  };

  const double every_epochs_;
  uint64_t marks_passed_ = 0;
  bool due_ = false;
  bool final_requested_ = false;
  bool final_done_ = false;
  std::optional<Assignment> assigned_;
  std::optional<uint32_t> last_worker_;
  uint64_t next_id_ = 1;
};

}  // namespace monsoon
