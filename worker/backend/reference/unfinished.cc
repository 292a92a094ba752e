#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

std::unique_ptr<ReferenceLayer> MakeLocallyConnected2d(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeLocalContrastNorm(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeBatchNorm(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeGlobalAveragePool(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeRescale(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeAugment(const LayerPlan& /*plan*/) { return nullptr; }

}  // namespace monsoon::reference
