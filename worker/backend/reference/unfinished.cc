#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

std::unique_ptr<ReferenceLayer> MakeLayerNorm(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeEmbedding(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakePositionEmbedding(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeLstm(const LayerPlan& /*plan*/) { return nullptr; }
std::unique_ptr<ReferenceLayer> MakeSelfAttention(const LayerPlan& /*plan*/) { return nullptr; }

}  // namespace monsoon::reference
