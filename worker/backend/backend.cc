#include "worker/backend/backend.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/backend/cpu/network.h"
#include "worker/backend/reference/network.h"
#include "worker/nn/network_plan.h"

namespace monsoon {

absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(BackendKind kind, const Model& model,
                                                       const ParameterLayout& layout,
                                                       const NetworkOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.threads, " compute threads; at least 1 is needed"));
  }
  ASSIGN_OR_RETURN(NetworkPlan plan, NetworkPlan::Create(model, layout));
  if (kind == BackendKind::kReference) {
    return std::unique_ptr<Network>(new reference::ReferenceNetwork(std::move(plan)));
  }
  return cpu::CpuNetwork::Create(std::move(plan), options.threads);
}

}  // namespace monsoon
