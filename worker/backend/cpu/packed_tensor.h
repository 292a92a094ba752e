// PackedTensor: a tensor in the format a primitive wants, beside the plain
// row-major form that the flat parameter vector, the data and the logical
// order use. The first two dimensions of the packed form may be larger than
// the plain ones; what is added is zero and never leaves.
//
// Channels are padded so because oneDNN's convolutions are two to three times
// faster on multiples of 16 (20 -> 50 at 5 x 5: 35 GFLOP/s, 32 -> 64: 113).
#pragma once

#include "worker/backend/cpu/context.h"

namespace monsoon::cpu {

class PackedTensor {
 public:
  PackedTensor() = default;
  // `plain_dims` are those of the plain form, as many as `packed` has. The
  // packed form is `memory` where given, otherwise one of its own.
  PackedTensor(Context& context, const dnnl::memory::dims& plain_dims,
               const dnnl::memory::desc& packed);
  PackedTensor(Context& context, const dnnl::memory::dims& plain_dims, dnnl::memory packed);

  const dnnl::memory& packed() const { return packed_; }

  // Packed from plain. Where both forms are the same and the memory is our
  // own, nothing is copied: the packed memory is `plain`, which must live on.
  void Pack(const float* plain);
  // Before a primitive writes the packed form that Unpack will bring to `plain`.
  void BindOutput(float* plain);
  void Unpack(float* plain);

 private:
  void Init(Context& context, const dnnl::memory::dims& plain_dims,
            const dnnl::memory::desc& packed);

  size_t rows_ = 0;           // plain: rows of columns_
  size_t columns_ = 0;
  size_t padded_columns_ = 0;
  bool padded_ = false;
  bool direct_ = false;       // packed_ points at the caller's plain buffer
  AlignedBuffer staging_;     // padded and row-major
  dnnl::memory plain_;        // of staging_, or of the caller's buffer
  dnnl::memory packed_;
  Call pack_;
  Call unpack_;
};

}  // namespace monsoon::cpu
