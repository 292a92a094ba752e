// ProbeTls: what answers at an address, before anything is told to it: whether it speaks TLS, which
// certificates it shows, and whether it takes ours. gRPC says of all that no more than that the
// connection broke.
//
// Nothing of what it finds is believed: who uses a certificate verifies it (peer_verifier.h).
//
// Plain functions. Block for the deadline at most, and for the resolver.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/security/credential_file.h"

namespace monsoon {

struct ProbedServer {
  bool speaks_tls = false;
  std::string chain;  // PEM, its own certificate first; "": it showed none
  // Why it does not take us, in words that say what to do; OK: it does, or it said nothing.
  absl::Status refusal;
};

// `credential`: what we show; none: nothing. Unavailable where nobody answers, in plain words.
absl::StatusOr<ProbedServer> ProbeTls(const std::string& host, uint16_t port,
                                      const std::optional<Credential>& credential,
                                      absl::Duration deadline);

}  // namespace monsoon
