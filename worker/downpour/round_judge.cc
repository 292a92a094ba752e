#include "worker/downpour/round_judge.h"

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "worker/downpour/gradient_clip.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

std::string NameIn(const ParameterLayout& layout, std::span<const float> values) {
  return values.empty() ? "" : NameFirstNonFinite(layout, values);
}

}  // namespace

absl::Status RoundJudge::NonFiniteLoss(const std::string& where, double loss,
                                       std::span<const float> gradient,
                                       std::span<const float> parameters) const {
  std::string tensor = NameIn(*layout_, gradient);
  if (tensor.empty()) {
    tensor = NameIn(*layout_, parameters);
  }
  const std::string message =
      absl::StrCat(where, ": loss is ", loss,
                   tensor.empty() ? std::string(", all tensors are finite")
                                  : absl::StrCat(", first non-finite value in tensor ", tensor));
  if (policy_.action() != DivergencePolicy::SKIP) {
    return DivergedError(message);
  }
  LOG(WARNING) << message << "; the step is dropped";
  return absl::OkStatus();
}

absl::Status RoundJudge::Refused(const std::string& where, const std::string& refusal,
                                 std::span<const float> gradient) {
  const std::string tensor = NameIn(*layout_, gradient);
  const std::string why = tensor.empty() ? refusal : absl::StrCat("tensor ", tensor, ": ", refusal);
  ++refused_in_a_row_;
  LOG(WARNING) << where << ": push refused (" << refused_in_a_row_ << " in a row): " << why;
  switch (policy_.action()) {
    case DivergencePolicy::SKIP:
      return absl::OkStatus();
    case DivergencePolicy::HALT:
      return DivergedError(absl::StrCat(where, ": push refused: ", why));
    default:
      break;
  }
  if (refused_in_a_row_ < policy_.max_refused()) {
    return absl::OkStatus();
  }
  return DivergedError(
      absl::StrCat(where, ": ", refused_in_a_row_, " pushes refused in a row, the last: ", why));
}

}  // namespace monsoon
