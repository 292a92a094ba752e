// ErrorLog: the first error of a network's CUDA calls, with what failed and in
// which layer. Every call of runtime.h, gemm.h and the kernels' headers notes its return
// code here and does nothing once an error is there, so that layer code reads
// straight on and the network asks once, at the end of a step.
//
// An error of the device ("sticky" in CUDA's words) stays: what the GPU holds
// is lost, and the network answers the same from then on.
//
// Thread safety: none; one per network.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::cuda {

class ErrorLog {
 public:
  enum class Kind {
    kNone,
    kOutOfMemory,   // of the device, or over the memory limit
    kNotAvailable,  // no device, driver or cuBLAS
    kDevice,
  };

  bool ok() const { return kind_ == Kind::kNone; }
  Kind kind() const { return kind_; }
  const std::string& message() const { return message_; }

  // What the next calls are for: shown in the message. Null: no layer.
  void SetLayer(const std::string* name) { layer_ = name; }

  // Keeps the first; `what` is the operation, `reason` what CUDA answered.
  void Add(Kind kind, const std::string& what, const std::string& reason);

  // Memory may be there for a smaller batch; other kinds are not forgotten.
  void ForgetOutOfMemory();
  // Ends a capture: what it noted, if anything, is returned and forgotten, since
  // nothing of it has run. An error of the device shows again at the next call.
  std::string TakeCaptureError();

 private:
  Kind kind_ = Kind::kNone;
  std::string message_;
  const std::string* layer_ = nullptr;
};

}  // namespace monsoon::cuda
