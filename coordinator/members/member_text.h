// Tokens and members as people are told of them.
//
// Plain functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/join_token.pb.h"
#include "proto/member.pb.h"
#include "proto/member_record.pb.h"

namespace monsoon {

TokenStatus StatusOfToken(const JoinTokenRecord& token, absl::Time now);
// Without the tasks that it is.
MemberStatus StatusOfMember(const MemberRecord& member, absl::Time now);

// The host of "ipv4:10.0.0.5:41234" and "ipv6:%5B::1%5D:41234", as gRPC calls the other end of a
// connection; what is neither as it is.
std::string HostOfPeer(absl::string_view peer);

}  // namespace monsoon
