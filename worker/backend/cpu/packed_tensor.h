// PackedTensor: a tensor in the format a primitive wants, beside the plain
// row-major form that the flat parameter vector, the data and the logical
// order use.
#pragma once

#include "worker/backend/cpu/context.h"

namespace monsoon::cpu {

class PackedTensor {
 public:
  PackedTensor() = default;
  // Of the shape and format of `packed`, which lives in memory of its own, or,
  // where the format is the plain one, in the caller's.
  PackedTensor(Context& context, const dnnl::memory::desc& packed);
  // The packed form is `packed`.
  PackedTensor(Context& context, dnnl::memory packed);

  const dnnl::memory& packed() const { return packed_; }

  // Packed from plain. Where the format is the plain one and the memory is not
  // given, nothing is copied: the packed memory is `plain`, which must live on.
  void Pack(const float* plain);
  // Before a primitive writes the packed form that Unpack will bring to `plain`.
  void BindOutput(float* plain);
  void Unpack(float* plain);

 private:
  dnnl::memory plain_;  // of the caller's buffer
  dnnl::memory packed_;
  Call pack_;
  Call unpack_;
};

}  // namespace monsoon::cpu
