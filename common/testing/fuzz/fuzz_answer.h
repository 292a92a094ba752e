// JudgeFuzzAnswer: the answer to a call of any content is to be OK, or an error of a kind
// that its caller can act on, with a message. Internal, Unknown and the like are bugs, and
// so is what says nothing: then not OK, with what it was.
#pragma once

#include "absl/status/status.h"

namespace monsoon {

inline absl::Status JudgeFuzzAnswer(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return status.ok() || !status.message().empty()
                 ? absl::OkStatus()
                 : absl::InternalError("an error without a message: " + status.ToString());
    default:
      return status;
  }
}

}  // namespace monsoon
