// Replica: the program's side of one replica, behind libmonsoon's C interface (monsoon.h
// says what each call means): the vectors, which batches are drawn and counted, when a step
// is due, and the exchange with the sidecar. One that dies gets a successor, which enters the
// job again with the same memory: to the program that is a session that was lost.
//
// Thread safety: none.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/client/sidecar_process.h"

namespace monsoon {

struct Result {
  monsoon_code code = MONSOON_OK;
  std::string message;

  bool ok() const { return code == MONSOON_OK; }
};

// A code that came over the socket; MONSOON_UNKNOWN for one that has no name here.
monsoon_code CodeOfStatus(uint32_t value);

class Replica {
 public:
  static Result Join(const monsoon_join_options& options, std::unique_ptr<Replica>* replica);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  const std::string& job() const { return job_; }
  size_t size() const { return floats_; }
  size_t offset(size_t i) const { return i < offsets_.size() ? offsets_[i] : floats_; }
  float* parameters() { return vectors_; }
  float* gradient() { return vectors_ + stride_; }
  float* evaluated() { return vectors_ + 2 * stride_; }
  uint32_t local_steps() const { return local_steps_; }

  Result Begin(monsoon_event* event);
  Result Draw(monsoon_batch* batch, monsoon_event* event);
  Result NoMoreSamples(monsoon_event* event);
  Result StepIsDue(size_t batches, bool* is_due);
  Result Step(const monsoon_step_info& step, monsoon_event* event);
  size_t tables() const { return tables_.size(); }
  Result FetchRows(size_t table, const uint64_t* rows, size_t count, float* values,
                   monsoon_event* event);
  Result PushRows(size_t table, const uint64_t* rows, size_t count, const float* values);
  Result ReportEvaluation(const monsoon_metric* metrics, size_t count, const char* failure,
                          monsoon_event* event);
  Result Wait(monsoon_batch* batch, monsoon_event* event);
  void GetStats(monsoon_stats* stats) const;
  Result Leave();

 private:
  struct Batch {
    uint32_t epoch = 0;
    std::vector<uint32_t> samples;
  };
  struct Table {
    uint64_t rows = 0;
    uint32_t columns = 0;
  };
  // A fetch of rows until its answer is here.
  struct RowFetch {
    std::string request;
    float* values = nullptr;
    size_t bytes = 0;
    bool done = false;
  };
  // Of steps since the last exchange.
  struct Uncounted {
    uint64_t steps = 0;
    uint64_t examples = 0;
    uint32_t batches = 0;
    double loss_sum = 0;
    uint64_t loss_steps = 0;
    uint64_t judged = 0;  // of the examples: `correct` is of them
    uint64_t correct = 0;
  };

  // How a sidecar is started, and what it is told first: kJoin, but for its last fields.
  struct Start {
    std::string executable;
    std::string log_file;
    std::string join;
  };

  explicit Replica(Start start);
  Result TakeJoined(const Message& joined);
  // What all sidecars are told as kJoin; `died`: how the one before did, of a job that is
  // entered again.
  std::string JoinFields(const std::string& died) const;
  // Why no call can be made now; OK: one can.
  Result CheckReady() const;
  // Sends the request and waits for its answer.
  Result Ask(MessageKind kind, const FieldWriter& fields, monsoon_event* event);
  // Waits for the answer that is missing.
  Result AwaitAnswer(monsoon_event* event);
  Result TakeAnswer(const Message& answer, monsoon_event* event);
  Result TakeRows(const Message& answer);
  // The table has those rows.
  Result CheckRows(size_t table, const uint64_t* rows, size_t count) const;
  // Asks for the rows of row_fetch_ until they are here, whatever becomes of sessions.
  Result FinishRows(monsoon_event* event);
  // "the sidecar (pid 12) was killed by signal 9 (Killed)"; it has ended then.
  std::string HowSidecarEnded();
  Result SidecarIsGone();
  // Starts another one in its place, which answers kJoin, then kBegin in the place of the
  // call that was made. An error: too many have died in a row.
  Result Restart();
  // The new one has entered the job: begins.
  Result BeginAgain(const Message& joined);
  Result Broken(monsoon_code code, std::string message);
  // Zeroes the gradient as soon as the sidecar has taken it, where the step asked for that.
  void ZeroTakenGradient();
  void ZeroGradient();
  // Tells what StepIsDue was told and could not pass on; false: nothing was.
  bool TellUntold(monsoon_event* event);
  // Gives what is drawn to the program; false: nothing is.
  bool GiveBatch(monsoon_batch* batch);
  // Fills the gradient with what is to be pushed beside the program's own.
  void WriteDifferences();
  // The parameters as they are now are the job's.
  void NoteBase();
  // Tells of the uncounted steps: as a step, or as the last.
  Result Exchange(MessageKind kind, monsoon_event* event);
  void ForgetBatches();

  const pid_t owner_;
  const Start start_;
  std::unique_ptr<SidecarProcess> sidecar_;

  std::string job_;
  uint32_t local_steps_ = 0;
  // Of the difference under way: as many, or fewer where the sidecar says so.
  uint32_t steps_due_ = 0;
  size_t floats_ = 0;
  size_t stride_ = 0;  // of the vectors, in floats
  std::vector<size_t> offsets_;
  float* vectors_ = nullptr;
  bool zeroes_ = false;  // the gradient, once it is taken; at the latest with the answer
  uint64_t taken_before_ = 0;
  size_t mapped_bytes_ = 0;
  int memory_ = -1;  // of the vectors, for the next sidecar

  std::vector<Table> tables_;
  std::optional<RowFetch> row_fetch_;
  // Gradients of rows for the next step, as it is to bring them, and how many pieces.
  std::string rows_to_push_;
  uint32_t row_pieces_ = 0;

  // Ranges of the vectors that are sent as differences: all of it with local steps, else
  // the statistics. `base_` is what the differences count from, range after range.
  struct Range {
    size_t begin = 0;
    size_t size = 0;
  };
  std::vector<Range> differences_;
  std::vector<float> base_;

  std::deque<Batch> leased_;              // not given to the program yet
  Batch given_;                           // whose memory the program reads
  std::deque<size_t> uncounted_batches_;  // given, by their sizes
  Uncounted uncounted_;
  // Was interrupted while it found out whether it is due.
  std::optional<monsoon_step_info> waiting_step_;
  // What StepIsDue was told when it drew ahead, where that was the loss of the session.
  std::optional<monsoon_event> untold_;
  uint64_t steps_ = 0;
  uint64_t examples_ = 0;

  bool begun_ = false;
  bool evaluates_ = false;  // an evaluation was asked for
  bool ended_ = false;
  bool left_ = false;
  bool asked_ = false;  // an answer is missing
  MessageKind asked_for_ = MessageKind::kBegin;
  bool joins_again_ = false;       // the answer is a new sidecar's to kJoin
  bool restarted_ = false;         // the answer will be of a new session
  uint32_t restarts_ = 0;          // since a step was counted
  uint64_t earlier_sessions_ = 0;  // of sidecars that are gone
  EventFigures figures_;
  Result broken_;  // nothing can be done any more, and why
};

}  // namespace monsoon
