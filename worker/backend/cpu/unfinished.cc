#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeLayerNorm(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeEmbedding(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakePositionEmbedding(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeLstm(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeSelfAttention(const LayerArguments& /*arguments*/) { return nullptr; }

}  // namespace monsoon::cpu
