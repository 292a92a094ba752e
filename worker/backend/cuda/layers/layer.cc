#include "worker/backend/cuda/layers/layer.h"

#include "worker/backend/cuda/kernels/elementwise_kernels.h"

namespace monsoon::cuda {

std::unique_ptr<DeviceLayer> MakeLayer(const LayerPlan& plan, Precision precision) {
  switch (plan.kind) {
    case LayerKind::kDense:
      return MakeDense(plan, precision);
    case LayerKind::kConv2d:
      return MakeConv2d(plan, precision);
    case LayerKind::kAveragePool2d:
    case LayerKind::kMaxPool2d:
      return MakePool2d(plan);
    case LayerKind::kRelu:
    case LayerKind::kSigmoid:
    case LayerKind::kTanh:
      return MakeActivation(plan);
    case LayerKind::kDropout:
      return MakeDropout(plan);
    default:
      break;
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
