// Why a server breaks connections off: gRPC says no more than that it does, where one end speaks
// TLS and the other does not, or where a certificate is not taken.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/transport/grpc/tls.h"

namespace monsoon {

// `status` of a call to `address` over a channel with `tls`, with its cause if that can be found
// out: FAILED_PRECONDITION where the server asks for certificates and the channel has none. Looks
// only where the connection broke; that blocks for a second at most.
absl::Status Diagnose(const absl::Status& status, const std::string& address,
                      const std::shared_ptr<Tls>& tls);

}  // namespace monsoon
