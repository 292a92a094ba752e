#include "worker/nn/network_plan.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/layer_design.h"

namespace monsoon {
namespace {

absl::StatusOr<Extent> ToExtent(const std::string& layer, const std::vector<uint32_t>& shape) {
  switch (shape.size()) {
    case 1:
      return Extent{.channels = shape[0]};
    case 2:
      return Extent{.channels = shape[1], .steps = shape[0]};
    case 3:
      return Extent{.channels = shape[0], .height = shape[1], .width = shape[2], .is_image = true};
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("layer ", layer, " has a shape of ", shape.size(),
                       " dimensions; backends know [features], [steps, features] and [channels, "
                       "height, width]"));
  }
}

absl::StatusOr<LayerPlan> PlanLayer(const ParameterLayout& layout, const Layer& layer,
                                    const LayerShape& shape) {
  LayerPlan plan;
  static_cast<LayerSettings&>(plan) = shape.settings;
  plan.kind = KindOf(layer);
  plan.name = shape.name;
  plan.inputs.clear();
  for (const int input : shape.inputs) {
    plan.inputs.push_back(static_cast<ValueIndex>(input + 1));
    ASSIGN_OR_RETURN(const Extent extent, ToExtent(shape.name, layout.ShapeOf(input)));
    plan.input_extents.push_back(extent);
  }
  plan.input = plan.input_extents.front();
  ASSIGN_OR_RETURN(plan.output, ToExtent(shape.name, shape.output_shape));
  for (const int tensor : shape.tensors) {
    const TensorInfo& info = layout.tensors()[static_cast<size_t>(tensor)];
    plan.tensors.push_back(TensorSlot{info.offset, info.size});
    if (info.name.ends_with("/weight")) {
      plan.weight = plan.tensors.back();
    } else if (info.name.ends_with("/bias")) {
      plan.bias = plan.tensors.back();
    }
  }
  return plan;
}

// A tensor of several layers: all but the last one's slots add.
void MarkShared(std::vector<LayerPlan>* layers) {
  std::set<uint64_t> seen;
  for (size_t i = layers->size(); i-- > 0;) {
    LayerPlan& layer = (*layers)[i];
    for (TensorSlot& slot : layer.tensors) {
      slot.shared = !seen.insert(slot.offset).second;
      for (TensorSlot* const same : {&layer.weight, &layer.bias}) {
        same->shared = same->size > 0 && same->offset == slot.offset ? slot.shared : same->shared;
      }
    }
  }
}

absl::StatusOr<LossPlan> PlanLoss(const Model& model, const Extent& output) {
  LossPlan plan;
  plan.outputs = output.features();
  plan.steps = output.steps;
  plan.classes = plan.outputs;
  plan.label_smoothing = model.loss_settings().label_smoothing();
  switch (model.loss()) {
    case SOFTMAX_CROSS_ENTROPY:
      plan.kind = LossKind::kSoftmaxCrossEntropy;
      break;
    case ONE_VERSUS_ALL_LOGISTIC:
      plan.kind = LossKind::kOneVersusAllLogistic;
      break;
    case BINARY_CROSS_ENTROPY:
      plan.kind = LossKind::kBinaryCrossEntropy;
      plan.classes = plan.outputs == 1 ? 2 : plan.outputs;
      break;
    case MEAN_SQUARED_ERROR:
      plan.kind = LossKind::kMeanSquaredError;
      plan.classes = 0;
      break;
    default:
      return absl::InvalidArgumentError("the model's loss is unknown to this build");
  }
  if (!(plan.label_smoothing >= 0 && plan.label_smoothing < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("loss_settings.label_smoothing is ",
                                                   plan.label_smoothing,
                                                   ", it must be at least 0 and below 1"));
  }
  if (plan.label_smoothing > 0 && plan.kind != LossKind::kSoftmaxCrossEntropy &&
      plan.kind != LossKind::kBinaryCrossEntropy) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss_settings.label_smoothing is of SOFTMAX_CROSS_ENTROPY and "
                     "BINARY_CROSS_ENTROPY, not of ",
                     Loss_Name(model.loss())));
  }
  const auto& weights = model.loss_settings().class_weight();
  plan.class_weights.assign(weights.begin(), weights.end());
  if (!weights.empty() && plan.class_weights.size() != plan.classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss_settings.class_weight has ", plan.class_weights.size(),
                     " values, the loss tells ", plan.classes, " classes apart"));
  }
  for (const float weight : plan.class_weights) {
    if (!(weight >= 0 && std::isfinite(weight))) {
      return absl::InvalidArgumentError(absl::StrCat("loss_settings.class_weight has ", weight,
                                                     "; weights are finite and not below 0"));
    }
  }
  return plan;
}

// NetworkPlan.id_limit.
uint64_t FindIdLimit(const std::vector<LayerPlan>& layers) {
  uint64_t limit = 0;
  for (const LayerPlan& layer : layers) {
    if (layer.kind != LayerKind::kEmbedding) {
      continue;
    }
    const uint64_t rows = layer.weight.size / layer.output.features();
    limit = limit == 0 ? rows : std::min(limit, rows);
  }
  return limit;
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
  if (model.layer_size() == 0) {
    return absl::InvalidArgumentError("the model has no layer");
  }
  NetworkPlan plan;
  for (int i = 0; i < model.layer_size(); ++i) {
    ASSIGN_OR_RETURN(LayerPlan layer,
                     PlanLayer(layout, model.layer(i), layout.layers()[static_cast<size_t>(i)]));
    layer.index = static_cast<uint32_t>(i);
    plan.is_chain = plan.is_chain && layer.inputs == std::vector<ValueIndex>{layer.index};
    plan.layers.push_back(std::move(layer));
  }
  MarkShared(&plan.layers);
  plan.id_limit = FindIdLimit(plan.layers);
  ASSIGN_OR_RETURN(plan.input, ToExtent("input", layout.input_shape()));
  ASSIGN_OR_RETURN(plan.loss, PlanLoss(model, plan.layers.back().output));
  plan.classes = plan.loss.outputs;
  plan.parameter_floats = layout.size();
  plan.gaps = FindGaps(layout);
  return plan;
}

}  // namespace monsoon
