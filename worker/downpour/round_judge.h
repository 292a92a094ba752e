// RoundJudge: what becomes of steps and pushes that cannot be used (job.proto,
// DivergencePolicy): they are dropped, or the session ends.
//
// What a worker of ours cannot use is the job's: it computes what the job says, and one that
// takes steps of its own begins anew where they leave the finite numbers. A program keeps by
// itself what nobody here sees, as the moments of its optimizer. So what it makes is its own
// trouble, as long as the parameters that it was given are finite.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {

class RoundJudge {
 public:
  // `layout` must outlive this; max_refused is at least 1.
  RoundJudge(const DivergencePolicy& policy, const ParameterLayout* layout, bool of_program = false)
      : policy_(policy), layout_(layout), of_program_(of_program) {}

  // A step's loss is no finite number. OK: the step is dropped; else DivergedError, or
  // ProgramDivergedError. It names the step (`where`) and the first tensor that is not finite, of
  // the gradient or else of the parameters, which may have been moved since they were fetched.
  // `gradient` is empty where the device does not give it. Half as many floats as the layout has
  // are BFLOAT16, here and below.
  absl::Status NonFiniteLoss(const std::string& where, double loss, std::span<const float> gradient,
                             std::span<const float> parameters);
  // A step's loss is one, which ends a row of dropped steps.
  void Used() { dropped_in_a_row_ = 0; }

  // A push was refused. OK: it is given up; else an error as above. `gradient`: what was pushed;
  // empty where that is not known.
  absl::Status Refused(const std::string& where, const std::string& refusal,
                       std::span<const float> gradient);
  // A push was not refused, which ends a row of refusals.
  void Accepted() { refused_in_a_row_ = 0; }

  // It is to be told of what is fetched whole, to see whose trouble it is.
  bool wants_fetched() const { return of_program_ && refused_in_a_row_ + dropped_in_a_row_ > 0; }
  void NoteFetched(std::span<const float> parameters);

 private:
  // Of a program, which has made nothing of use `in_a_row` times.
  absl::Status JudgeProgram(const std::string& message, uint32_t in_a_row) const;

  const DivergencePolicy policy_;
  const ParameterLayout* const layout_;
  const bool of_program_;
  uint32_t refused_in_a_row_ = 0;
  uint32_t dropped_in_a_row_ = 0;
  std::string fetched_;  // the first value of what was fetched that is not finite; "": none
};

}  // namespace monsoon
