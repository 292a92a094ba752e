// ContributionScheduler: which replica computes which contribution of an evaluation
// (Dean et al. 2012, section 4.2).
//
// At Begin the contributions are cut into one run per replica, in order of the
// worker number, as long as the replica is fast: over evaluations a replica
// does about the same range, so that its data stays warm. A replica takes its
// run from the front. When it is at its end it makes the back half of the
// longest run its own. A replica holds at most kMaxHeld contributions: the one
// it computes and one to prefetch.
//
// When nothing fresh is left, a replica that holds nothing gets a second copy
// of an outstanding contribution where that may help: of the one that is most
// overdue, else of the one that is expected last, if the copy is expected
// before it. One backup copy each. A copy is overdue kDueSlack times the usual
// duration after its start; after max(kExpiry times that, kMinExpiry) its lease
// has expired, and the contribution may be copied again, whatever else. What a
// removed replica held is leased again before anything else. The first result
// counts.
//
// Invariants: each contribution of an evaluation is counted once; a replica
// never holds two copies of one; no copy is leased once a result has counted.
//
// A pure state machine: `now` never goes back. Not thread safe. Next, Complete
// and Return are O(log n), n the contributions; Begin is O(n + replicas).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"

namespace monsoon {

class ContributionScheduler {
 public:
  static constexpr size_t kMaxHeld = 2;
  static constexpr double kDueSlack = 1.25;
  static constexpr double kExpiry = 4;
  static constexpr absl::Duration kMinExpiry = absl::Seconds(1);

  enum class Outcome {
    kFirst,       // counts
    kSecondCopy,  // another replica's result has counted
    kLate,        // of another evaluation, or a lease that is not known
  };

  struct Progress {  // of the newest evaluation, open or not
    uint32_t total = 0;
    uint32_t done = 0;
    uint32_t outstanding = 0;  // leased and not done
  };
  struct Statistics {  // of all evaluations
    uint64_t leases = 0;
    // Of the contribution after the one that the replica was given before, in
    // the same evaluation.
    uint64_t continuing_leases = 0;
    uint64_t backup_copies = 0;
    uint64_t leased_again = 0;  // their only replica was removed, or gave up
    uint64_t second_results = 0;
    uint64_t late_results = 0;
  };

  // Without `backup_copies` only expired leases are copied.
  explicit ContributionScheduler(bool backup_copies) : backup_copies_(backup_copies) {}

  // `worker` is not, or is, a replica. A replica that comes back is expected to
  // be as fast as before.
  void AddReplica(uint32_t worker);
  // Returns how many contributions will be leased again.
  uint32_t RemoveReplica(uint32_t worker, absl::Duration now);

  // No evaluation is open.
  void Begin(uint64_t evaluation, uint32_t contributions);
  // Drops all leases. Nothing happens without an open evaluation.
  void End();

  // A contribution for `worker`, a replica; nothing when there is none now.
  std::optional<uint32_t> Next(uint32_t worker, absl::Duration now);
  // A result arrived. Those that do not count free the replica's lease too.
  Outcome Complete(uint32_t worker, uint64_t evaluation, uint32_t contribution, absl::Duration now);
  // The replica could not compute it: as Complete, but it is leased again.
  Outcome Return(uint32_t worker, uint64_t evaluation, uint32_t contribution, absl::Duration now);

  bool open() const { return open_; }
  uint64_t evaluation() const { return evaluation_; }
  // Open, and all contributions have counted.
  bool complete() const { return open_ && progress_.done == progress_.total; }
  // Contributions that `worker` holds, copies of counted ones included.
  size_t held(uint32_t worker) const;
  uint64_t counted_by(uint32_t worker) const;  // in all evaluations
  const Progress& progress() const { return progress_; }
  const Statistics& statistics() const { return statistics_; }

 private:
  struct Run {
    uint32_t next = 0;
    uint32_t end = 0;
  };
  struct Replica {
    size_t run = 0;  // in runs_
    std::optional<uint32_t> last;
    // In the order in which they are computed.
    absl::InlinedVector<uint32_t, kMaxHeld> held;
    absl::Duration start;  // of the first of `held`
  };
  // What is known of a worker beyond its membership.
  struct History {
    double seconds = 0;  // usual duration of a contribution; 0: not known
    uint64_t counted = 0;
  };
  struct Item {
    bool done = false;
    absl::InlinedVector<uint32_t, 2> holders;
    absl::Duration due;  // of its only copy
    absl::Duration expiry;
  };
  using Queue = std::set<std::pair<absl::Duration, uint32_t>>;

  size_t AddRun(uint32_t begin, uint32_t end);
  uint32_t TakeFront(size_t run);
  std::optional<uint32_t> TakeFresh(Replica* replica);
  std::optional<uint32_t> PickCopy(uint32_t worker, absl::Duration now) const;
  // Ends the lease, and starts the replica's next one. False, and no change,
  // when `worker` does not hold the contribution.
  bool Detach(uint32_t worker, uint32_t contribution, absl::Duration now);
  // After Detach, without a result. Returns whether it is to be leased again.
  bool GiveUp(uint32_t contribution);
  // The replica begins with the first of what it holds.
  void Restart(Replica* replica, absl::Duration now);
  // Files an item in the queues, by its present holders, or takes it out.
  void File(uint32_t contribution);
  void Unfile(uint32_t contribution);
  void Observe(uint32_t worker, absl::Duration took);
  // Seconds that a contribution usually takes `worker`; 0: not known at all.
  double Usual(uint32_t worker) const;

  const bool backup_copies_;
  bool open_ = false;
  uint64_t evaluation_ = 0;
  std::map<uint32_t, Replica> replicas_;
  std::unordered_map<uint32_t, History> history_;
  double known_seconds_ = 0;  // sum and number of the known ones of history_
  uint32_t known_ = 0;

  std::vector<Item> items_;
  std::vector<Run> runs_;
  std::set<std::pair<uint32_t, size_t>> longest_;  // length > 0, run
  std::set<uint32_t> again_;                       // to be leased again
  Queue due_;                                      // items with one copy
  Queue expiry_;                                   // items with a copy
  Progress progress_;
  Statistics statistics_;
};

}  // namespace monsoon
