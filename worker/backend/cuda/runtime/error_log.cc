#include "worker/backend/cuda/runtime/error_log.h"

#include <utility>

namespace monsoon::cuda {

void ErrorLog::Add(Kind kind, const std::string& what, const std::string& reason) {
  if (!ok()) {
    return;
  }
  kind_ = kind;
  message_ = (layer_ == nullptr ? "" : "layer " + *layer_ + ": ") + what + ": " + reason;
}

void ErrorLog::ForgetOutOfMemory() {
  if (kind_ == Kind::kOutOfMemory) {
    kind_ = Kind::kNone;
    message_.clear();
  }
}

std::string ErrorLog::TakeCaptureError() {
  kind_ = Kind::kNone;
  return std::exchange(message_, {});
}

}  // namespace monsoon::cuda
