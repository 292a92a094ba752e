#include "worker/nn/network_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

absl::StatusOr<Extent> ToExtent(const std::string& layer, const std::vector<uint32_t>& shape) {
  if (shape.size() == 3) {
    return Extent{shape[0], shape[1], shape[2]};
  }
  if (shape.size() == 1) {
    return Extent{shape[0], 1, 1};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", layer, " has a shape of ", shape.size(),
                   " dimensions; backends know [features] and [channels, height, width]"));
}

uint64_t OneIfZero(uint64_t value) { return value == 0 ? 1 : value; }

void SetPool(const Pool2d& pool, LayerKind kind, LayerPlan& plan) {
  plan.kind = kind;
  plan.window = pool.window();
  plan.stride = pool.stride() == 0 ? pool.window() : pool.stride();
}

absl::Status SetKind(const Layer& layer, LayerPlan& plan) {
  switch (layer.kind_case()) {
    case Layer::kDense:
      plan.kind = LayerKind::kDense;
      return absl::OkStatus();
    case Layer::kConv2D:
      plan.kind = LayerKind::kConv2d;
      plan.window = layer.conv2d().kernel();
      plan.stride = OneIfZero(layer.conv2d().stride());
      plan.padding = layer.conv2d().padding();
      return absl::OkStatus();
    case Layer::kAveragePool2D:
      SetPool(layer.average_pool2d(), LayerKind::kAveragePool2d, plan);
      return absl::OkStatus();
    case Layer::kMaxPool2D:
      SetPool(layer.max_pool2d(), LayerKind::kMaxPool2d, plan);
      return absl::OkStatus();
    case Layer::kRelu:
      plan.kind = LayerKind::kRelu;
      return absl::OkStatus();
    case Layer::kSigmoid:
      plan.kind = LayerKind::kSigmoid;
      return absl::OkStatus();
    case Layer::kTanh:
      plan.kind = LayerKind::kTanh;
      return absl::OkStatus();
    case Layer::kDropout:
      plan.kind = LayerKind::kDropout;
      plan.dropout_rate = layer.dropout().rate();
      if (!(plan.dropout_rate >= 0 && plan.dropout_rate < 1)) {
        return absl::InvalidArgumentError(absl::StrCat("layer ", plan.name, ": dropout rate ",
                                                       plan.dropout_rate, " is not in [0, 1)"));
      }
      return absl::OkStatus();
    case Layer::kFlatten:
      plan.kind = LayerKind::kFlatten;
      return absl::OkStatus();
    case Layer::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("layer ", plan.name, " has no kind"));
}

TensorSlot Slot(const ParameterLayout& layout, int tensor) {
  if (tensor < 0) {
    return {};
  }
  const TensorInfo& info = layout.tensors()[tensor];
  return TensorSlot{info.offset, info.size};
}

std::vector<Slice> FindGaps(const ParameterLayout& layout) {
  std::vector<Slice> used;
  for (const TensorInfo& tensor : layout.tensors()) {
    used.push_back(Slice{tensor.offset, tensor.offset + tensor.size});
  }
  std::sort(used.begin(), used.end(),
            [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  used.push_back(Slice{layout.size(), layout.size()});
  std::vector<Slice> gaps;
  uint64_t at = 0;
  for (const Slice& slice : used) {
    if (at < slice.begin) {
      gaps.push_back(Slice{at, slice.begin});
    }
    at = slice.end;
  }
  return gaps;
}

}  // namespace

absl::StatusOr<NetworkPlan> NetworkPlan::Create(const Model& model, const ParameterLayout& layout) {
  CHECK_EQ(static_cast<size_t>(model.layer_size()), layout.layers().size());
  if (model.loss() != SOFTMAX_CROSS_ENTROPY) {
    return absl::InvalidArgumentError("the model's loss is not SOFTMAX_CROSS_ENTROPY");
  }
  if (model.layer_size() == 0) {
    return absl::InvalidArgumentError("the model has no layer");
  }
  NetworkPlan plan;
  for (int i = 0; i < model.layer_size(); ++i) {
    const LayerShape& shape = layout.layers()[i];
    LayerPlan layer;
    layer.name = shape.name;
    layer.index = static_cast<uint32_t>(i);
    ASSIGN_OR_RETURN(layer.input, ToExtent(shape.name, shape.input_shape));
    ASSIGN_OR_RETURN(layer.output, ToExtent(shape.name, shape.output_shape));
    layer.weight = Slot(layout, shape.weight);
    layer.bias = Slot(layout, shape.bias);
    RETURN_IF_ERROR(SetKind(model.layer(i), layer));
    plan.layers.push_back(std::move(layer));
  }
  plan.input = plan.layers.front().input;
  plan.classes = plan.layers.back().output.size();
  plan.parameter_floats = layout.size();
  plan.gaps = FindGaps(layout);
  return plan;
}

}  // namespace monsoon
