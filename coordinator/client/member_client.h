// MemberClient: what members say to their coordinator about tokens and members
// (proto/member.proto, which tells the errors).
//
// Thread safety: all calls may run concurrently. Each call returns within the client's deadline;
// UNAVAILABLE names the address that was not reached.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/member.pb.h"

namespace monsoon {

class Tls;

class MemberClient {
 public:
  virtual ~MemberClient() = default;

  // `signing_request` (PEM) is of the caller's own identity.
  virtual absl::StatusOr<MemberCertificate> Renew(const std::string& signing_request) = 0;
  // `request` needs no cluster.
  virtual absl::StatusOr<CreateTokenReply> CreateToken(const CreateTokenRequest& request) = 0;
  virtual absl::StatusOr<ListTokensReply> ListTokens() = 0;
  virtual absl::StatusOr<TokenStatus> RevokeToken(const std::string& id) = 0;
  virtual absl::StatusOr<ListMembersReply> ListMembers() = 0;
  virtual absl::StatusOr<RevokeMemberReply> RevokeMember(const std::string& member) = 0;

  // Over gRPC; does not connect yet. `cluster` and `tls` as in JobClient::Create.
  static std::unique_ptr<MemberClient> Create(const std::string& address, absl::Duration deadline,
                                              const std::string& cluster = "",
                                              const std::shared_ptr<Tls>& tls = nullptr);
};

}  // namespace monsoon
