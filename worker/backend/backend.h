// Which backend computes, and how to make it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/model/parameter_layout.h"
#include "proto/model.pb.h"
#include "worker/backend/network.h"

namespace monsoon {

enum class BackendKind { kCpu, kReference };

struct NetworkOptions {
  // Compute threads of one step, set in the calling thread; at least 1.
  int threads = 1;
};

// InvalidArgument for a model the backend cannot run, naming the layer.
absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(BackendKind kind, const Model& model,
                                                       const ParameterLayout& layout,
                                                       const NetworkOptions& options);

}  // namespace monsoon
