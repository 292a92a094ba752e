// SharedVectors: the three vectors that a program shares with its sidecar, and what is done with
// their floats between a step and its answer: the differences of what the program has moved, and
// the zeroing of a gradient that was taken.
//
// They are the program's but between a request and its answer. Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/client/join_message.h"
#include "worker/client/result.h"

namespace monsoon {

class SharedVectors {
 public:
  SharedVectors() = default;
  ~SharedVectors();
  SharedVectors(const SharedVectors&) = delete;
  SharedVectors& operator=(const SharedVectors&) = delete;

  // Maps `memory`, which the sidecar has made for that job. RESOURCE_EXHAUSTED.
  Result Map(int memory, const EnteredJob& job);
  // Ranges that are sent as differences.
  void SetDifferences(std::vector<FloatRange> ranges);

  float* parameters() { return memory_; }
  float* gradient() { return memory_ + stride_; }
  float* evaluated() { return memory_ + 2 * stride_; }

  // The parameters as they are now are the job's: differences count from them.
  void NoteBase();
  // Fills the gradient with what is to be pushed beside the program's own.
  void WriteDifferences();

  // The gradient is about to be sent. `zero`: it is to be zeroed once the sidecar has taken it,
  // at the latest with the answer.
  void SendGradient(bool zero);
  // Zeroes it where that is to be, as soon as the sidecar has taken it.
  void ZeroIfTaken();
  // The same after the answer, which comes when it was taken.
  void ZeroAfterAnswer();

 private:
  float* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
  size_t bytes_ = 0;  // of each vector's values
  size_t stride_ = 0;

  std::vector<FloatRange> differences_;
  std::vector<float> base_;  // of the differences, range after range

  bool zeroes_ = false;
  uint64_t taken_before_ = 0;  // gradients
};

}  // namespace monsoon
