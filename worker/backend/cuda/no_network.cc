// In place of network.cc in a build without the CUDA toolkit.
#include "worker/backend/cuda/network.h"

namespace monsoon::cuda {

absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(NetworkPlan /*plan*/,
                                                       const NetworkSettings& /*settings*/) {
  return absl::FailedPreconditionError(
      "CUDA is not built in: build with the CUDA toolkit installed, or use device: CPU or AUTO");
}

}  // namespace monsoon::cuda
