#include "worker/downpour/round_judge.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/logging.h"
#include "common/base/status.h"
#include "common/codec/tensor_codec.h"
#include "worker/downpour/gradient_clip.h"
#include "worker/session/session_status.h"

namespace monsoon {
namespace {

// Of values that are BFLOAT16, two in the place of a float.
std::string NameFirstNonFiniteHalf(const ParameterLayout& layout, std::span<const float> values) {
  const std::optional<uint64_t> index =
      TensorCodec::Find(BFLOAT16)->FirstNonFinite(std::as_bytes(values));
  for (const TensorInfo& tensor : layout.tensors()) {
    if (index.has_value() && *index >= tensor.offset && *index < tensor.offset + tensor.size) {
      return absl::StrCat(tensor.name, "[", *index - tensor.offset, "]");
    }
  }
  return {};
}

std::string NameIn(const ParameterLayout& layout, std::span<const float> values) {
  return values.empty()                  ? ""
         : values.size() < layout.size() ? NameFirstNonFiniteHalf(layout, values)
                                         : NameFirstNonFinite(layout, values);
}

}  // namespace

absl::Status RoundJudge::NonFiniteLoss(const std::string& where, double loss,
                                       std::span<const float> gradient,
                                       std::span<const float> parameters) {
  const std::string moved = NameIn(*layout_, parameters);
  std::string tensor = NameIn(*layout_, gradient);
  if (tensor.empty()) {
    tensor = moved;
  }
  const std::string message =
      absl::StrCat(where, ": loss is ", loss,
                   tensor.empty() ? std::string(", all tensors are finite")
                                  : absl::StrCat(", first non-finite value in tensor ", tensor));
  ++dropped_in_a_row_;
  const bool skips = policy_.action() == DivergencePolicy::SKIP;
  if (of_program_ && policy_.action() != DivergencePolicy::HALT) {
    // What it pushed before may have moved its copy here, and what is fetched next tells.
    const bool at_once = !skips && moved.empty();
    RETURN_IF_ERROR(JudgeProgram(
        message, at_once ? policy_.max_refused() : std::max(dropped_in_a_row_, refused_in_a_row_)));
  } else if (!skips) {
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
  if (policy_.action() == DivergencePolicy::HALT) {
    return DivergedError(absl::StrCat(where, ": push refused: ", why));
  }
  const std::string message =
      absl::StrCat(where, ": ", refused_in_a_row_, " pushes refused in a row, the last: ", why);
  if (of_program_) {
    return JudgeProgram(message, refused_in_a_row_);
  }
  const bool fails = policy_.action() != DivergencePolicy::SKIP;
  return fails && refused_in_a_row_ >= policy_.max_refused() ? DivergedError(message)
                                                             : absl::OkStatus();
}

void RoundJudge::NoteFetched(std::span<const float> parameters) {
  fetched_ = NameIn(*layout_, parameters);
}

absl::Status RoundJudge::JudgeProgram(const std::string& message, uint32_t in_a_row) const {
  if (!fetched_.empty()) {
    return DivergedError(absl::StrCat(
        message, "; the job's own parameters are not finite, as in tensor ", fetched_));
  }
  return in_a_row < policy_.max_refused() ? absl::OkStatus() : ProgramDivergedError(message);
}

}  // namespace monsoon
