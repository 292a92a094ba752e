// A program in a test: one replica through libmonsoon's C interface, whose sidecar is a
// process of its own. The model is w of `kFloats` values, the loss of sample s is
// |w - Target(s)|^2 / 2.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/client/monsoon.h"

namespace monsoon::testing {

inline constexpr size_t kFloats = 24;  // not a multiple of the alignment

// What sample s wants value i to be.
float Target(uint32_t sample, size_t i);

struct ProgramOptions {
  std::string coordinator;
  std::string settings;  // of the job, without the model
  monsoon_kind kind = MONSOON_TRAINED;
  bool only_enter = false;
  float initial = 0;
  size_t floats = kFloats;
};

class TestProgram {
 public:
  explicit TestProgram(const ProgramOptions& options);
  ~TestProgram();
  TestProgram(const TestProgram&) = delete;
  TestProgram& operator=(const TestProgram&) = delete;

  // OK, and what the library said last.
  bool joined() const { return replica_ != nullptr; }
  const std::string& error() const { return error_; }
  monsoon_code code() const { return code_; }
  monsoon_replica* replica() { return replica_; }
  const std::vector<float> initial() const { return std::vector<float>(floats_, initial_); }
  float* parameters() { return monsoon_parameters(replica_); }
  const monsoon_event& event() const { return event_; }
  monsoon_stats stats() const;

  bool Begin();
  // The next batch; empty where there is none now, or the job has ended.
  monsoon_batch Draw();
  // The gradient of the batch at the parameters, and a step. False: an error.
  bool Step(const monsoon_batch& batch);
  // The program's own step w -= rate * gradient, and a step.
  bool LocalStep(const monsoon_batch& batch, float rate);
  bool Leave();

  // Draws and steps until the job has ended; `seen` gets each batch that was counted. False:
  // an error.
  bool Train(const std::function<void(const monsoon_batch&)>& seen = nullptr, float local_rate = 0);

  // Answers evaluations; without it they are answered by the loss |w|.
  std::function<std::vector<monsoon_metric>(const float* w)> evaluate;

 private:
  bool Note(monsoon_code code);
  // Evaluates as long as it is asked to.
  bool Settle();

  const size_t floats_;
  const float initial_;
  monsoon_replica* replica_ = nullptr;
  monsoon_event event_{};
  monsoon_code code_ = MONSOON_OK;
  std::string error_;
};

// The mean gradient of the batch at w, summed in the order of its samples.
std::vector<float> GradientOf(const monsoon_batch& batch, const std::vector<float>& w);

}  // namespace monsoon::testing
