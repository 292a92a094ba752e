// Program: the user's program as its sidecar sees it: the calls that it makes, their
// answers, and whether it is still there.
//
// A call is outstanding from its arrival to its answer; the program waits meanwhile.
//
// Thread safety: leaving() and AwaitLeave from any thread. All else belongs to one thread
// at a time: whoever hands it on sees to that.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/unique_fd.h"
#include "worker/client/exchange.h"
#include "worker/sidecar/program_memory.h"

namespace monsoon {

class Program {
 public:
  // The two sockets that libmonsoon passed. The program is the parent process. FAILED
  // PRECONDITION if that is gone already.
  static absl::StatusOr<std::unique_ptr<Program>> Open(int socket, int leave);

  // Waits for a call, if none is outstanding: the call, or null after `timeout`. CANCELLED
  // when the program leaves or is gone; INVALID_ARGUMENT when it speaks nonsense.
  absl::StatusOr<const Message*> AwaitCall(absl::Duration timeout);
  // Null: none is outstanding.
  const Message* call() const { return call_ ? &*call_ : nullptr; }

  // While a call is outstanding: the vector of the parameters becomes these.
  void SetParameters(std::span<const float> parameters);

  // What the answers tell beside their kind; `kind`, `parameters_changed` and `discarded`
  // are set by each.
  using Figures = std::function<EventFigures()>;
  void SetFigures(Figures figures) { figures_ = std::move(figures); }

  // Answers the outstanding call by an event with `batches` (LeasedBatches::Draw).
  void Answer(uint32_t event_kind, bool parameters_changed = false,
              const std::string& batches = "");
  // Answers a kFetchRows.
  void AnswerRows(std::span<const float> values);
  // Answers a kTakeStream.
  void AnswerStream(const std::string& fields);
  // Answers it by an error, which is final: what passes by itself (a coordinator that is away,
  // a shard that is started anew) is waited for on this side, and not told.
  void Refuse(const absl::Status& status);
  // Answers kJoin, and passes the memory on.
  void AnswerJoin(const std::string& fields, std::unique_ptr<ProgramMemory> memory);

  // The batches that the program holds are not its own any more: said with the next event.
  void Discard() { discards_ = true; }
  bool discards() const { return discards_; }

  // What came with the outstanding call: the memory that an earlier sidecar of the program
  // made. None: a negative descriptor.
  UniqueFd TakePassed() { return std::move(passed_); }

  // After AnswerJoin.
  ProgramMemory& memory() { return *memory_; }

  // The program has said that it leaves, or is gone.
  bool leaving() const { return AwaitLeave(absl::ZeroDuration(), -1); }
  // Waits for that, at most so long, or until `wake` is readable (-1: there is none).
  bool AwaitLeave(absl::Duration timeout, int wake) const;

 private:
  Program(int socket, UniqueFd leave, UniqueFd life);

  MessageSocket socket_;
  const UniqueFd leave_;
  const UniqueFd life_;  // the process itself
  std::optional<Message> call_;
  UniqueFd passed_;
  std::unique_ptr<ProgramMemory> memory_;
  Figures figures_;
  bool discards_ = false;
};

}  // namespace monsoon
