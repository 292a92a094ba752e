// ProgramNetwork: the user's program as a Network: a step hands it the parameters, waits
// for the gradient, and meanwhile gives it the batches that it draws.
//
// Thread safety: none; the compute thread owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/model/table_info.h"
#include "common/model/tensor_slices.h"
#include "proto/checkpoint.pb.h"
#include "worker/client/exchange.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/nn/network.h"
#include "worker/replica/replica_session.h"
#include "worker/session/session_control.h"
#include "worker/sidecar/leased_batches.h"
#include "worker/sidecar/program.h"

namespace monsoon {

class ProgramNetwork : public Network {
 public:
  // All must outlive this. `tables` and `tensors` (TensorSlices of all) are
  // the model's.
  ProgramNetwork(Program* program, LeasedBatches* batches, SessionControl* control,
                 const Clock* clock, std::vector<TableInfo> tables = {},
                 std::vector<TensorSlice> tensors = {})
      : program_(program),
        batches_(batches),
        control_(control),
        clock_(clock),
        tables_(std::move(tables)),
        tensors_(std::move(tensors)) {}

  // What it acts on while the program computes; before the first step. Both must outlive the
  // last.
  void Connect(DownpourRunner* downpour, ReplicaSession* session) {
    downpour_ = downpour;
    session_ = session;
  }
  // Takes a stream for the session; may wait.
  using StreamTaker = std::function<absl::StatusOr<StreamPosition>(const std::string& stream)>;
  void SetStreamTaker(StreamTaker take) { take_stream_ = std::move(take); }

  // The program gets them with the answer that lets it go on.
  void SetParameters(std::span<const float> parameters) override;
  void CopyParameters() override;
  std::span<const float> own_parameters() const override { return program_->memory().parameters(); }
  // Returns with the program's call outstanding: the next step answers it. CANCELLED when
  // the session is to end, or the program leaves.
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override;
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override;
  std::string Fingerprint() const override { return "program"; }

  // Has the program evaluate what lies in the memory for that. The session may be waiting
  // for anything but a step. INVALID_ARGUMENT: the program could not.
  absl::StatusOr<EvaluationResult> AskToEvaluate();

  // While nothing is leased, of a program that computed when its last session was lost: if it
  // ends the job, the session is told. ProgramDivergedError: that is what it says.
  absl::Status Listen();

 private:
  // The next call that is outstanding, answered or not before; CANCELLED as above.
  absl::StatusOr<const Message*> AwaitCall();
  // The program leaves or is gone: `why`, once the session has been told to leave, too.
  absl::Status AwaitDrain(const absl::Status& why);
  // Rows, or a stream, of the session that is there, whichever the program's batches are of.
  absl::Status AnswerQuestion(const Message& call);
  // Answers the outstanding call by MONSOON_GO, with the parameters if they are others.
  void AnswerGo(const std::string& batches);
  absl::Status AnswerDraw();
  // Answers what was outstanding before this step; with batches where the program has none
  // left, which saves it the call.
  absl::Status AnswerLastStep();
  // The tensors that the end of a step's fields says to have no gradient. InvalidArgument where
  // the model has no such tensor.
  absl::StatusOr<std::vector<TensorSlice>> ReadAbsent(FieldReader* fields) const;
  absl::StatusOr<StepResult> TakeStep(const Message& call, std::span<float> gradient);
  // The last step, of 0 steps if all are told; for what is leased beyond it there are no
  // samples.
  absl::StatusOr<StepResult> TakeEndOfSamples(const Message& call, std::span<float> gradient);
  // Likewise the last step of a program that ends the job: the rest is nobody's.
  absl::StatusOr<StepResult> TakeFinish(const Message& call, std::span<float> gradient);
  void EndJob();

  Program* const program_;
  LeasedBatches* const batches_;
  SessionControl* const control_;
  const Clock* const clock_;
  const std::vector<TableInfo> tables_;
  const std::vector<TensorSlice> tensors_;
  DownpourRunner* downpour_ = nullptr;
  ReplicaSession* session_ = nullptr;
  StreamTaker take_stream_;
  // What the program has not got yet; empty: nothing.
  std::span<const float> parameters_;
  std::vector<float> taken_;  // where CopyParameters found the program computing
  bool changed_ = false;      // the program was not told yet
  bool heard_ = false;        // the call that is outstanding came while nothing was leased
  // Of the program in the step under way: from an answer to its next call.
  absl::Duration computing_;
};

}  // namespace monsoon
