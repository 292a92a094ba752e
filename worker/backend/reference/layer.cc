#include "worker/backend/reference/layer.h"

namespace monsoon::reference {

std::unique_ptr<ReferenceLayer> MakeLayer(const LayerPlan& plan) {
  switch (plan.kind) {
#define MONSOON_REFERENCE_LAYER(kind, proto_case, name, maker) \
  case LayerKind::k##kind:                                     \
    return Make##maker(plan);
    MONSOON_LAYER_KINDS(MONSOON_REFERENCE_LAYER)
#undef MONSOON_REFERENCE_LAYER
  }
  return nullptr;
}

}  // namespace monsoon::reference
