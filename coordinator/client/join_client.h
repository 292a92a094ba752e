// JoinClient: what somebody says to a coordinator who has no certificate yet. Nothing secret goes
// out before the server is known to be that of the token's cluster.
//
// Calls block for a few seconds at most. UNAVAILABLE and DEADLINE_EXCEEDED name the address that
// was not reached.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/member.pb.h"

namespace monsoon {

class JoinClient {
 public:
  virtual ~JoinClient() = default;

  // The certificates (PEM) that the server at `address` shows, its authority's among them. Nothing
  // of them is verified, and nothing is sent.
  virtual absl::StatusOr<std::string> FetchAuthority(const std::string& address) = 0;

  // Over a connection on which the server proves to be the coordinator of the cluster whose
  // authority has this certificate (PEM): UNAUTHENTICATED where it does not.
  virtual absl::StatusOr<JoinReply> Join(const std::string& address, const std::string& authority,
                                         const JoinRequest& request) = 0;

  // Over TLS. Each call returns within `deadline`.
  static std::unique_ptr<JoinClient> Create(absl::Duration deadline);
};

}  // namespace monsoon
