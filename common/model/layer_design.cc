#include "common/model/layer_design.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace monsoon {

uint64_t ElementCount(const LayerTensorShape& shape) {
  uint64_t count = 1;
  for (uint32_t extent : shape) {
    count *= extent;
    if (count > kMaxLayoutFloats) {
      return kMaxLayoutFloats;
    }
  }
  return count;
}

std::string LayerShapeText(const LayerTensorShape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<LayerDesign> DesignLayer(const Layer& layer, const LayerInputs& inputs) {
  if (layer.kind_case() == Layer::KIND_NOT_SET) {
    return absl::InvalidArgumentError("no kind is set; write for example dense { units: 10 }");
  }
  const bool joins = layer.kind_case() == Layer::kAdd || layer.kind_case() == Layer::kMultiply ||
                     layer.kind_case() == Layer::kConcat;
  if (!joins && inputs.shapes.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("it takes one input, ", inputs.shapes.size(),
                     " are named; join them with concat, add or multiply"));
  }
  switch (layer.kind_case()) {
#define MONSOON_LAYER_CASE(kind, proto_case, name, maker) \
  case Layer::k##proto_case:                              \
    return Design##maker(layer, inputs);
    MONSOON_LAYER_KINDS(MONSOON_LAYER_CASE)
#undef MONSOON_LAYER_CASE
    case Layer::KIND_NOT_SET:
      break;
  }
  return absl::InternalError("unknown layer");
}

LayerKind KindOf(const Layer& layer) {
  switch (layer.kind_case()) {
#define MONSOON_LAYER_CASE(kind, proto_case, name, maker) \
  case Layer::k##proto_case:                              \
    return LayerKind::k##kind;
    MONSOON_LAYER_KINDS(MONSOON_LAYER_CASE)
#undef MONSOON_LAYER_CASE
    case Layer::KIND_NOT_SET:
      break;
  }
  CHECK(false);
  return LayerKind::kDense;
}

}  // namespace monsoon
