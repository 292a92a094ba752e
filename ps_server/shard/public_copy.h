// PublicCopy: what a stripe has told of its parameters, the same for all replicas (downpour.proto,
// Downpour.fetch_changes). Each publication adds Q(parameters - copy) to it, Q being what the
// job's format makes of it; what that rounds away stays in parameters - copy, and so is part of
// the next one. Who has the copy of some version gets the steps from there.
//
// The newest steps are kept while they have fewer bytes than the copy whole.
//
// Thread safety: none; the stripe's lock is held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "proto/wire_format.pb.h"

namespace monsoon {

class PublicCopy {
 public:
  // Floats of state that it takes for each parameter.
  static constexpr size_t kSlots = 1;

  // `copy` is as long as the parameters, and outlives this. Not TOP_K or TOP_K_2BIT.
  PublicCopy(WireFormat format, std::span<float> copy);

  // It becomes the parameters of that version when it is published next: nobody has an earlier
  // one, or all that they have is of no use.
  void Forget();

  // Stands for the parameters at `version` from now on.
  void Publish(std::span<const float> parameters, uint64_t version);

  // Of a checkpoint: `copy` holds one of this version. Who has steps of it has an earlier life's.
  void Restore(uint64_t version);

  // For a checkpoint: the copy to `out`, and its version; of one that was not published yet
  // the parameters.
  uint64_t Cut(std::span<const float> parameters, uint64_t version, std::span<float> out) const;

  uint64_t version() const { return version_; }
  std::span<const float> floats() const { return copy_; }

  // The steps from the copy of version `known` to this one, one after another; nothing where
  // they are not all there.
  std::optional<std::vector<std::span<const std::byte>>> StepsFrom(uint64_t known) const;

 private:
  struct Step {
    uint64_t from = 0;
    std::vector<std::byte> bytes;
  };

  const TensorCodec* const codec_;
  const std::span<float> copy_;
  bool begun_ = false;
  uint64_t version_ = 0;
  std::deque<Step> steps_;  // the last one leads to version_
  size_t bytes_ = 0;        // of all of them
};

}  // namespace monsoon
