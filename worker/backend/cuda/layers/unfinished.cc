#include "worker/backend/cuda/layers/layer.h"

namespace monsoon::cuda {

#define MONSOON_UNFINISHED(maker)                                            \
  std::unique_ptr<DeviceLayer> Make##maker(const LayerPlan&, Precision) {    \
    return nullptr;                                                          \
  }
MONSOON_UNFINISHED(LocallyConnected2d)
MONSOON_UNFINISHED(LocalContrastNorm)
MONSOON_UNFINISHED(Augment)

}  // namespace monsoon::cuda
