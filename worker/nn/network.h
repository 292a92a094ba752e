// Network: a whole model's forward and backward pass on one device. Backends:
// cpu (oneDNN), cuda, reference (plain loops in double, the oracle of every test).
//
// The gradient is one contiguous buffer of the ParameterLayout, so a push
// needs no gather; parameters are read out of such a buffer too.
//
// Thread safety: none; calls come one at a time, from any one thread, which
// blocks until the result is in host memory. No call allocates once a batch
// size has been seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/nn/batch.h"
#include "worker/nn/predictions.h"
#include "worker/nn/step_key.h"
#include "worker/nn/step_result.h"
#include "worker/nn/test_figures.h"

namespace monsoon {

class DeviceTraining;

struct EvaluationResult {
  double loss_sum = 0;  // over the batch
  double correct = 0;
  uint64_t examples = 0;
  uint64_t unjudged = 0;  // of the examples, as in StepResult
  // Of a batch; its samples until the network's next call.
  Judgement judgement;
  // Of a whole test set where loss and accuracy are not all, or of a program's own evaluation, by
  // name (ReportEvaluationRequest).
  std::vector<std::pair<std::string, double>> metrics;
};

class Network {
 public:
  virtual ~Network() = default;

  // The parameters of the calls that follow: layout.size() floats. The span
  // must stay alive and unchanged until the next SetParameters; call again
  // after each change of its values (once per fetch or local update), since a
  // backend may pack them into a layout of its own.
  virtual void SetParameters(std::span<const float> parameters) = 0;

  // Of a network that computes with a copy of its own: from here on the memory that
  // SetParameters was given may be written again.
  virtual void CopyParameters() {}
  // That copy, after a step; empty: it has none.
  virtual std::span<const float> own_parameters() const { return {}; }

  // One training step: writes the gradient of the batch's MEAN loss to
  // `gradient` (layout.size() floats, all overwritten, padding with zero).
  // Dropout masks follow `key`. InvalidArgument for an empty batch, a batch of
  // another sample size, a label outside the classes and a value that is no id of an embedding.
  virtual absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                                     std::span<float> gradient) = 0;

  // From now on, each LossAndGradient calls `ready` while it computes, in its own thread: all of
  // the gradient from `from` on is final. Never where a network knows only when all of it is. Null:
  // nobody asks.
  using GradientReady = std::function<void(size_t from)>;
  virtual void TellReady(GradientReady /*ready*/) {}

  // Forward only, without dropout. Errors as above.
  virtual absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) = 0;

  // What Evaluate judges, as PredictionsOf the last outputs, without dropout: of
  // batch.examples * steps steps; NaN where outputs are not finite. The batch's labels are not
  // looked at. Errors as above; Unimplemented where a backend only trains and evaluates.
  virtual absl::Status Predict(const Batch& batch, const PredictionSpans& predictions) {
    return absl::UnimplementedError("this backend tells no predictions");
  }

  // Lets the network's device read parameters from `memory` and write gradients there
  // by itself, without a copy by the host, until what is returned goes: before the
  // memory does, and not during a call. Null where that brings nothing or the device
  // refuses; all else works as before. For all networks of the process.
  virtual std::shared_ptr<void> LockPages(std::span<float> memory) { return nullptr; }

  // Of a device with memory of its own; null: the host's is as near. Lives as long as the
  // network.
  virtual DeviceTraining* device_training() { return nullptr; }

  // What the bits of a result depend on besides the inputs: backend, library
  // version, instruction set, threads.
  virtual std::string Fingerprint() const = 0;
};

}  // namespace monsoon
