// Replica: the program's side of one replica, behind libmonsoon's C interface (monsoon.h
// says what each call means): when a step is due, what a request tells the sidecar, and what its
// answer means to the program. The vectors, the samples and the rows at hand, and the way to the
// sidecar, are parts with headers of their own.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/client/drawn_batches.h"
#include "worker/client/exchange.h"
#include "worker/client/join_message.h"
#include "worker/client/monsoon.h"
#include "worker/client/program_rows.h"
#include "worker/client/program_streams.h"
#include "worker/client/result.h"
#include "worker/client/shared_vectors.h"
#include "worker/client/sidecar_link.h"

namespace monsoon {

class Replica {
 public:
  static Result Join(const monsoon_join_options& options, std::unique_ptr<Replica>* replica);
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const EnteredJob& job() const { return job_; }
  SharedVectors* vectors() { return &vectors_; }

  Result Begin(monsoon_event* event);
  Result Draw(monsoon_batch* batch, monsoon_event* event);
  Result NoMoreSamples(monsoon_event* event);
  Result Finish(monsoon_event* event);
  Result StepIsDue(size_t batches, bool* is_due);
  Result Step(const monsoon_step_info& step, monsoon_event* event);
  Result FetchRows(size_t table, const uint64_t* rows, size_t count, float* values,
                   monsoon_event* event);
  Result PushRows(size_t table, const uint64_t* rows, size_t count, const float* values);
  Result TakeStream(std::string_view name, monsoon_event* event);
  monsoon_stream taken_stream() const { return streams_.told(); }
  Result NotePosition(std::string_view name, std::string_view state) {
    return streams_.Note(name, state);
  }
  Result ReportEvaluation(const monsoon_metric* metrics, size_t count, const char* failure,
                          monsoon_event* event);
  Result ReportDivergence(const char* what, monsoon_event* event);
  Result Wait(monsoon_batch* batch, monsoon_event* event);
  void GetStats(monsoon_stats* stats) const;
  Result Leave() { return link_.Leave(); }

 private:
  explicit Replica(SidecarLink::Start start) : link_(std::move(start)) {}

  Result TakeJoined(const Message& answer, const monsoon_join_options& options);
  // Why no call can be made now; OK: one can.
  Result CheckReady() const;
  // The same, and no answer is missing.
  Result CheckFree() const;
  // Sends the request and waits for its answer.
  Result Ask(MessageKind kind, const FieldWriter& fields, monsoon_event* event);
  // Waits for the answer that is missing.
  Result AwaitAnswer(monsoon_event* event);
  Result TakeAnswer(const Message& answer, monsoon_event* event);
  // Asks for the rows of the fetch until they are here, whatever becomes of sessions.
  Result FinishRows(monsoon_event* event);
  // Asks for the stream until it is here, or the job has ended.
  Result FinishTake(monsoon_event* event);
  // Asks once; what the event told is added to `event`.
  Result AskAgain(MessageKind kind, const FieldWriter& fields, monsoon_event* event);
  // What is wrong with the step's absent tensors.
  Result CheckAbsent(const monsoon_step_info& step) const;
  // Tells what StepIsDue was told and could not pass on; false: nothing was.
  bool TellUntold(monsoon_event* event);
  // Tells of the uncounted steps: as a step, or as the last.
  Result Exchange(MessageKind kind, monsoon_event* event);
  void ForgetBatches();

  SidecarLink link_;
  EnteredJob job_;
  SharedVectors vectors_;
  DrawnBatches batches_;
  ProgramRows rows_;
  ProgramStreams streams_;
  std::vector<uint32_t> absent_;  // tensors, of the step that is to be told of

  // Steps of the difference under way: as many as the job's, or fewer where the sidecar says so.
  uint32_t steps_due_ = 0;
  // Was interrupted while it found out whether it is due.
  std::optional<monsoon_step_info> waiting_step_;
  // What StepIsDue was told when it drew ahead, where that was the loss of the session.
  std::optional<monsoon_event> untold_;

  bool begun_ = false;
  bool evaluates_ = false;  // an evaluation was asked for
  bool ended_ = false;
  EventFigures figures_;
  uint64_t earlier_sessions_ = 0;  // of sidecars that are gone
};

}  // namespace monsoon
