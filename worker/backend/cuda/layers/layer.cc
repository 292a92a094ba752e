#include "worker/backend/cuda/layers/layer.h"

#include "worker/backend/cuda/kernels/elementwise_kernels.h"

namespace monsoon::cuda {

std::unique_ptr<DeviceLayer> MakeLayer(const LayerPlan& plan, Precision precision) {
  switch (plan.kind) {
#define MONSOON_DEVICE_LAYER(kind, proto_case, name, maker) \
  case LayerKind::k##kind:                                  \
    return Make##maker(plan, precision);
    MONSOON_LAYER_KINDS(MONSOON_DEVICE_LAYER)
#undef MONSOON_DEVICE_LAYER
  }
  return nullptr;
}

const void* AsFactor(const Pass& pass, Precision precision, const float* values, uint64_t count,
                     uint16_t* scratch) {
  if (!IsHalf(precision)) {
    return values;
  }
  Cast(pass.stream, CastToHalf{HalfOf(precision), values, scratch}, count);
  return scratch;
}

const void* WeightFactor(const Pass& pass, Precision precision, const TensorSlot& weight) {
  if (IsHalf(precision)) {
    return pass.half_parameters + weight.offset;
  }
  return pass.parameters + weight.offset;
}

}  // namespace monsoon::cuda
