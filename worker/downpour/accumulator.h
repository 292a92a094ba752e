// Accumulator: sums the gradients of n_push steps into one push, in one of several
// buffers, so that one is filled while others are in flight, or are kept until they are
// on the shards' disks.
//
// A push is the sum of batch means; nobody divides. Its base is the marks of
// its first step's parameters: the oldest fetch that contributed, since marks
// only grow within a session.
//
// Where a replica pushes differences, its steps' gradients are not added up: a push is what they
// moved the parameters by.
//
// With a device the gradients are added up there, and only their sum comes to the host:
// where pushes travel as halves, half as many bytes, with error feedback on the device.
//
// Thread safety: none; the compute thread owns it. A sealed accumulation's
// floats may be used by the push thread as long as it holds the accumulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/memory/aligned_floats.h"
#include "common/model/tensor_slices.h"
#include "proto/coordinator.pb.h"
#include "proto/wire_format.pb.h"
#include "worker/downpour/row_sums.h"
#include "worker/group/parameter_store.h"
#include "worker/nn/device_training.h"
#include "worker/session/done_part.h"

namespace monsoon {

// One push, ready to go.
struct Accumulation {
  std::span<float> gradient;  // empty where the device has encoded it
  std::span<const std::byte> encoded;
  SharedMarks base;
  uint32_t steps = 0;
  float weight = 1;         // as PushRequest.weight
  float part = 1;           // as PushRequest.part
  absl::Duration patience;  // as PushRequest.patience_ms; zero: none, or not known
  // Their last step is in here: done once this is acknowledged.
  std::vector<DonePart> parts;
  // The gradient's memory, not used for anything else while somebody holds it.
  SharedBuffer memory;
  // As GradientView.absent.
  std::vector<TensorSlice> absent;
  // Null: the gradient is there. Else it comes from a device: Await() first.
  std::shared_ptr<DeviceTraining::Reading> reading;
  // What comes from there is to be negated.
  bool negated = false;

  // Waits for what comes from a device. Once, by whoever sends it; `gradient` is then there.
  absl::Status Await() const;

  std::shared_ptr<const RowSums> rows;  // of tables; null: none
};

class Accumulator {
 public:
  // Told of each new buffer that a step or a device will write to.
  using OnBuffer = std::function<void(AlignedFloats*)>;

  // kEncoded: gradients come in the push format, two values in the place of a float, and n_push
  // is 1.
  enum class Kind { kGradients, kDifferences, kEncoded };
  // n_push at least 1.
  Accumulator(size_t floats, uint32_t n_push, OnBuffer on_buffer = nullptr,
              Kind kind = Kind::kGradients);

  // How many steps an accumulation takes from now on, the one that is open included; at
  // least 1. Of differences alone.
  void SetSteps(uint32_t n_push);

  // Adds up on `device`, which must outlive this; before the first step. It encodes pushes
  // in `format` if that is BFLOAT16 or FLOAT16. ResourceExhausted, and all as before,
  // without room there.
  absl::Status MoveTo(DeviceTraining* device, WireFormat format = FLOAT32);

  // Where the next step writes its gradient (all of it). May be written again
  // as long as Add is not called. Empty with a device: it stays there.
  std::span<float> step_buffer();

  // Adds what step_buffer() holds, or the device's gradient; `marks` are of the
  // parameters it was computed with. `absent` tensors have no gradient in it; they have none in
  // the push where that is so of all its steps.
  void Add(const SharedMarks& marks, std::span<const TensorSlice> absent = {});

  // The step added last, or one that was dropped, ends `block`.
  void FinishPart(DonePart part) { parts_.push_back(std::move(part)); }

  bool full() const { return steps_ >= n_push_; }
  // No step and no part waits to be pushed.
  bool empty() const { return steps_ == 0; }
  // Those that wait for no gradient: all their later steps were dropped.
  std::vector<DonePart> TakeParts();

  // Closes the accumulation and starts the next one in a buffer that nobody holds. Not
  // when empty, but for differences, which then have no base. An error is the device's. `moved`:
  // what the steps have moved the parameters by, where the gradients are; of differences alone.
  absl::StatusOr<Accumulation> Seal(std::span<const float> moved = {});

 private:
  // One that nobody else holds.
  SharedBuffer TakeBuffer();
  AlignedFloats NewFloats(size_t floats);

  absl::StatusOr<Accumulation> SealGradients();
  absl::StatusOr<Accumulation> SealDifference(std::span<const float> moved);

  const size_t floats_;
  const Kind kind_;
  uint32_t n_push_;
  const OnBuffer on_buffer_;
  std::vector<SharedBuffer> buffers_;
  SharedBuffer current_;   // of this accumulation; null until it is needed
  AlignedFloats scratch_;  // of a step whose gradient is added to others, or is not pushed
  DeviceTraining* device_ = nullptr;
  // On the device.
  std::unique_ptr<PlacedFloats> sum_;       // null when n_push is 1
  std::unique_ptr<PlacedFloats> residual_;  // null where it does not encode
  std::unique_ptr<PlacedFloats> encoded_;   // half as many floats
  DeviceTraining::Half half_ = DeviceTraining::Half::kBfloat16;
  uint32_t steps_ = 0;
  SharedMarks base_;
  std::vector<TensorSlice> absent_;
  std::vector<DonePart> parts_;
};

}  // namespace monsoon
