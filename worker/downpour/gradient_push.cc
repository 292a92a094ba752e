#include "worker/downpour/gradient_push.h"

#include "common/base/status.h"

namespace monsoon {

absl::StatusOr<Accumulation> GradientPush::Seal(uint64_t sequence) {
  ASSIGN_OR_RETURN(Accumulation push, accumulator_.Seal());
  statistics_->WriteTo(push.gradient, parameters().front());
  RETURN_IF_ERROR(parameters().Seal(sequence));
  return push;
}

}  // namespace monsoon
