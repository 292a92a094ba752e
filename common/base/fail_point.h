// Fail points: named places of the real programs where a test lets them die, wait or
// fail. A place is one line,
//
//   MONSOON_FAIL_POINT("push.applied");
//   MONSOON_FAIL_POINT_STATUS("checkpoint.part_synced");  // may leave the function
//
// which is nothing at all unless MONSOON_FAIL_POINTS is defined: in the libraries that
// have such places, with --config=failpoints (fail_point.bzl). A name that is not in
// kFailPoints does not compile. What is to happen is said by environment variables, which
// are read once, when the program starts; what they say wrongly ends it with exit code 2
// and the list of all points.
//
//   MONSOON_FAIL_POINTS         NAME=ACTION[@N][xK] with commas between: at the N-th hit,
//                               and at K in a row; both 1 by default. ACTION is `kill`
//                               (SIGKILL to itself), `sleep:MS`, or, where a Status is
//                               returned, `error:ENOSPC`, `error:EIO` or `error:EACCES`.
//   MONSOON_FAIL_POINTS_TOKENS  a folder: a point acts only in a process that takes its
//                               token, the file NAME there (it becomes NAME.taken), and
//                               hits before the token lay there do not count for N. So
//                               one of several processes acts, and once: not again when
//                               it is started again with the same environment.
//   MONSOON_FAIL_POINTS_COUNT   a file: a process appends a line `NAME HITS` for each
//                               point that it has hit when a point kills it, and when it
//                               exits. What kills it otherwise takes its counts along.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

#ifdef MONSOON_FAIL_POINTS
#define MONSOON_FAIL_POINT(name) ::monsoon::HitFailPoint(::monsoon::FailPointIndex(name))
// For functions that return a Status or a StatusOr.
#define MONSOON_FAIL_POINT_STATUS(name)                                                          \
  do {                                                                                           \
    if (absl::Status fail_point_status_ =                                                        \
            ::monsoon::HitFailPointWithStatus(::monsoon::FailPointIndex(name, /*status=*/true)); \
        !fail_point_status_.ok()) {                                                              \
      return fail_point_status_;                                                                 \
    }                                                                                            \
  } while (false)
#else
#define MONSOON_FAIL_POINT(name) static_cast<void>(0)
#define MONSOON_FAIL_POINT_STATUS(name) static_cast<void>(0)
#endif

namespace monsoon {

struct FailPoint {
  const char* name;
  bool has_status = false;  // it can fail
};

// All there are, in the order of a job's life.
inline constexpr FailPoint kFailPoints[] = {
    // A parameter server starts.
    {"epoch.before_claim", true},
    {"epoch.claimed", true},
    // It makes a slice: before, and before the answer.
    {"slice.before_create", true},
    {"slice.created", true},
    // A program writes the initial parameters of its job: before all; one shard has
    // answered; before it seals them; all shards have sealed, before it tells.
    {"initial.before_write", true},
    {"initial.half_written"},
    {"initial.before_seal", true},
    {"initial.sealed"},
    // A parameter server is written to: before, and before the answer; it has sealed.
    {"write.before_apply", true},
    {"write.applied", true},
    {"write.sealed", true},
    // It applies a push: before its answer is made, and after that was given to the
    // transport (in shared memory: it is there).
    {"push.applied"},
    {"push.acknowledged"},
    // It applies rows of a table, which come before the push's parameters: before its answer.
    {"rows.applied"},
    // It writes its part of a generation.
    {"checkpoint.part_created", true},
    {"checkpoint.part_half_written", true},
    {"checkpoint.part_written", true},
    {"checkpoint.part_synced", true},
    {"checkpoint.part_renamed", true},
    {"checkpoint.part_folder_synced", true},
    {"checkpoint.part_verified", true},
    {"checkpoint.manifest_created", true},
    {"checkpoint.manifest_written", true},
    {"checkpoint.manifest_synced", true},
    {"checkpoint.manifest_renamed", true},
    {"checkpoint.manifest_folder_synced", true},
    // It knows that the generation is there, and deletes an older one.
    {"checkpoint.before_delete", true},
    {"checkpoint.manifest_deleted", true},
    {"checkpoint.part_deleted", true},
    // It gets a slice back: before its part is looked for, when all of it is read, and
    // when it is known to everybody, before the answer.
    {"restore.before_read", true},
    {"restore.read", true},
    {"restore.serves", true},
    // The coordinator's journal: within a transaction, and when that is on the disk and
    // nothing that rests on it has left.
    {"journal.before_commit", true},
    {"journal.committed"},
    // A worker has a gradient; has its acknowledgements; has not told of its blocks yet.
    {"worker.before_push"},
    {"worker.pushed"},
    {"worker.before_report"},
    // A member of a group has its next one; has the state that all go on from; has the gradients of
    // its batches; has the sum of all; has taken the step.
    {"member.begins"},
    {"member.shared"},
    {"member.before_sum"},
    {"member.summed"},
    {"member.applied"},
    // In a sum: it sends a frame, and has sent it; a frame has come, and was taken.
    {"collective.before_send"},
    {"collective.sent"},
    {"collective.came"},
    {"collective.taken"},
    // It writes its state to the shards: it has copied it; has written it; has sealed it.
    {"member.copied"},
    {"member.before_seal"},
    {"member.sealed"},
    // A parameter server has a part of such a write; has sealed it; has adopted it.
    {"state.staged"},
    {"state.sealed"},
    {"state.adopted"},
    // A batch. A parameter server: before an operation on vectors, and before its answer;
    // it has added a contribution, before that answer.
    {"vector.before_apply", true},
    {"vector.applied", true},
    {"contribution.added"},
    // A worker has a contribution; has it on all shards; has not told of it yet.
    {"contribution.computed"},
    {"contribution.sent"},
    {"contribution.before_report"},
    // The coordinator's minimiser begins, or goes on from an iteration; has the loss of an
    // evaluation that the shards hold open; has noted an iteration and what is due of it;
    // has ended, or was called off, which is not noted yet.
    {"batch.begins"},
    {"batch.evaluated"},
    {"batch.iterated"},
    {"batch.ended"},
};
inline constexpr size_t kNumFailPoints = std::size(kFailPoints);

namespace internal {
// Not constexpr: a call is a compile error.
void NoSuchFailPoint();
}  // namespace internal

// Its place in kFailPoints.
consteval size_t FailPointIndex(std::string_view name, bool status = false) {
  for (size_t i = 0; i < kNumFailPoints; ++i) {
    if (std::string_view(kFailPoints[i].name) == name && kFailPoints[i].has_status == status) {
      return i;
    }
  }
  internal::NoSuchFailPoint();
  return kNumFailPoints;
}

// The values of the variables; "": not set.
struct FailPointSettings {
  std::string points;
  std::string tokens;
};

// What the points of one process do. Thread safe.
class FailPoints {
 public:
  // InvalidArgument says what is wrong with `settings`, and which points there are.
  static absl::StatusOr<std::unique_ptr<FailPoints>> Create(const FailPointSettings& settings);

  struct Effect {
    bool kill = false;
    absl::Duration sleep = absl::ZeroDuration();
    absl::Status error;
  };
  // Counts a hit; what it is to do.
  Effect Hit(size_t point);
  // "NAME HITS\n" for each point that was hit.
  std::string Counts() const;

 private:
  struct Plan {
    Effect effect;
    uint64_t first = 0;  // hit at which it acts; 0: never
    uint64_t times = 0;
  };
  struct State {
    uint64_t hits = 0;
    uint64_t armed = 0;  // hits since its token was there
    bool taken = false;  // the token, by this process
  };

  explicit FailPoints(std::string tokens) : tokens_(std::move(tokens)), plans_(kNumFailPoints) {}
  absl::Status Parse(absl::string_view entry);
  std::string TokenOf(size_t point) const;

  const std::string tokens_;
  std::vector<Plan> plans_;  // constant once it is made
  mutable Mutex mutex_;
  std::vector<State> states_ ABSL_GUARDED_BY(mutex_) = std::vector<State>(kNumFailPoints);
};

// A hit in this process, as its environment says.
void HitFailPoint(size_t point);
absl::Status HitFailPointWithStatus(size_t point);

}  // namespace monsoon
