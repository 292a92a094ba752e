// ProgramMemory: the vectors that a program and its sidecar share: parameters, gradient,
// and what is to be evaluated. Of BFLOAT16 each float holds two values.
//
// Thread safety: none of its own. A request of the program hands the vectors to the
// sidecar, the answer hands them back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"
#include "worker/client/exchange.h"

namespace monsoon {

class ProgramMemory {
 public:
  // All zero. RESOURCE_EXHAUSTED without room. values_in_a_float: 1, or 2 for BFLOAT16.
  static absl::StatusOr<std::unique_ptr<ProgramMemory>> Create(size_t values,
                                                               size_t values_in_a_float = 1);
  // What another process made by Create, for as many values, as it is. INTERNAL if it is of
  // another size.
  static absl::StatusOr<std::unique_ptr<ProgramMemory>> Adopt(UniqueFd fd, size_t values,
                                                              size_t values_in_a_float = 1);
  ~ProgramMemory();
  ProgramMemory(const ProgramMemory&) = delete;
  ProgramMemory& operator=(const ProgramMemory&) = delete;

  std::span<float> parameters() const { return {vectors_, floats_}; }
  std::span<float> gradient() const { return {vectors_ + stride_, floats_}; }
  std::span<float> evaluated() const { return {vectors_ + 2 * stride_, floats_}; }

  size_t values_in_a_float() const { return values_in_a_float_; }
  // What was to be evaluated is not needed any more: gives back its pages where they are many, and
  // it reads as zeros.
  void ReleaseEvaluated();

  SharedFlags& flags() const { return *FlagsIn(vectors_, stride_); }

  // From vector to vector, in floats: whole pages.
  size_t stride() const { return stride_; }
  // For the program.
  int fd() const { return fd_.get(); }

 private:
  static absl::StatusOr<std::unique_ptr<ProgramMemory>> Map(UniqueFd fd, size_t floats,
                                                            size_t values_in_a_float);

  ProgramMemory(UniqueFd fd, float* vectors, size_t floats, size_t stride,
                size_t values_in_a_float);

  const UniqueFd fd_;
  float* const vectors_;
  const size_t floats_;
  const size_t stride_;
  const size_t values_in_a_float_;
};

}  // namespace monsoon
