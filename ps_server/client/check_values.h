// A client's options, and values of a push or a write, before anything of them is sent.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {

// InvalidArgument with the flat index of the first value of `what` that is not finite.
absl::Status CheckFinite(std::span<const float> values, absl::string_view what);

// The same of a gradient for `floats` parameters, in `format` where it is encoded; and of its
// weight.
absl::Status CheckGradient(const GradientView& gradient, size_t floats, WireFormat format);

// Of the lives that all rows of a fetch must be of, one a shard; empty: of any.
std::vector<uint64_t> HeldEpochs(const ParameterClientOptions& options);

// InvalidArgument where they contradict each other.
absl::Status CheckOptions(const ParameterClientOptions& options);

}  // namespace monsoon
