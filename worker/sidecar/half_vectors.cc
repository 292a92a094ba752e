#include "worker/sidecar/half_vectors.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/tensor_codec.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

absl::Status Refused(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("vectors of BFLOAT16 cannot be with ", why, "; give float32 vectors"));
}

}  // namespace

absl::Status CheckHalfVectors(const Job& job, const ParameterLayout& layout) {
  const Downpour& downpour = job.downpour();
  if (downpour.push_format() != BFLOAT16 || downpour.fetch_format() != BFLOAT16) {
    return Refused(absl::StrCat("push_format ", WireFormat_Name(downpour.push_format()),
                                " and fetch_format ", WireFormat_Name(downpour.fetch_format()),
                                ": both must be BFLOAT16"));
  }
  if (downpour.fetch_changes() != FLOAT32) {
    return Refused("fetch_changes, which are of a float32 copy");
  }
  if (downpour.n_push() > 1) {
    return Refused(absl::StrCat("n_push ", downpour.n_push(), ": sums of gradients are float32"));
  }
  if (downpour.has_local()) {
    return Refused("local steps, whose differences are float32");
  }
  if (downpour.optimizer().clip_norm() > 0) {
    return Refused("clip_norm, which the program's side computes in float32");
  }
  for (const TensorInfo& tensor : layout.tensors()) {
    if (tensor.is_statistic) {
      return Refused(absl::StrCat("statistics, as tensor ", tensor.name));
    }
  }
  return absl::OkStatus();
}

AlignedFloats FloatsOfHalves(std::span<const float> halves) {
  AlignedFloats floats = AlignedFloats::Uninitialized(2 * halves.size());
  CHECK_OK(TensorCodec::Find(BFLOAT16)->Decode(std::as_bytes(halves), floats.span()));
  return floats;
}

}  // namespace monsoon
