#include "worker/backend/cpu/layer.h"

namespace monsoon::cpu {

std::unique_ptr<CpuLayer> MakeLocallyConnected2d(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeLocalContrastNorm(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeBatchNorm(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeGlobalAveragePool(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeRescale(const LayerArguments& /*arguments*/) { return nullptr; }
std::unique_ptr<CpuLayer> MakeAugment(const LayerArguments& /*arguments*/) { return nullptr; }

}  // namespace monsoon::cpu
