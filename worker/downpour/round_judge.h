// RoundJudge: what becomes of steps and pushes that cannot be used (job.proto,
// DivergencePolicy): they are dropped, or the session ends.
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
  RoundJudge(const DivergencePolicy& policy, const ParameterLayout* layout)
      : policy_(policy), layout_(layout) {}

  // A step's loss is no finite number. OK: the step is dropped; else DivergedError. It names
  // the step (`where`) and the first tensor that is not finite, of the gradient or else of the
  // parameters. `gradient` is empty where the device does not give it.
  absl::Status NonFiniteLoss(const std::string& where, double loss, std::span<const float> gradient,
                             std::span<const float> parameters) const;

  // A push was refused. OK: it is given up; else DivergedError. `gradient`: what was pushed;
  // empty where that is not known.
  absl::Status Refused(const std::string& where, const std::string& refusal,
                       std::span<const float> gradient);
  // A push was not refused, which ends a row of refusals.
  void Accepted() { refused_in_a_row_ = 0; }

 private:
  const DivergencePolicy policy_;
  const ParameterLayout* const layout_;
  uint32_t refused_in_a_row_ = 0;
};

}  // namespace monsoon
