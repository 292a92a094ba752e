#include "coordinator/server/member_service.h"

#include "common/base/status.h"
#include "proto/member.pb.h"

namespace monsoon {
namespace {

// Answers requests for this cluster alone.
template <typename Ask>
auto ToMembers(Coordinator* coordinator, Ask ask) {
  return [coordinator, ask](const Caller& caller, const auto& request) {
    return coordinator->AskMembers(
        [&](Members* members, Moment moment) -> decltype(ask(members, request, caller, moment)) {
          RETURN_IF_ERROR(coordinator->CheckCluster(request.cluster()));
          return ask(members, request, caller, moment);
        });
  };
}

}  // namespace

void AddMemberCalls(Coordinator* coordinator, FaultInjector* faults, CallTable* calls) {
  calls->Add<JoinRequest>(
      "/monsoon.MemberService/Join", faults,
      ToMembers(coordinator, [](Members* members, const JoinRequest& request, const Caller& caller,
                                Moment moment) { return members->Join(request, caller, moment); }));
  calls->Add<RenewRequest>("/monsoon.MemberService/Renew", faults,
                           ToMembers(coordinator, [](Members* members, const RenewRequest& request,
                                                     const Caller& caller, Moment moment) {
                             return members->Renew(request, caller, moment);
                           }));
  calls->Add<CreateTokenRequest>(
      "/monsoon.MemberService/CreateToken", faults,
      ToMembers(coordinator,
                [](Members* members, const CreateTokenRequest& request, const Caller& caller,
                   Moment moment) { return members->CreateToken(request, caller, moment); }));
  calls->Add<ListTokensRequest>(
      "/monsoon.MemberService/ListTokens", faults,
      ToMembers(coordinator,
                [](Members* members, const ListTokensRequest&, const Caller&, Moment moment) {
                  return absl::StatusOr<ListTokensReply>(members->ListTokens(moment));
                }));
  calls->Add<RevokeTokenRequest>(
      "/monsoon.MemberService/RevokeToken", faults,
      ToMembers(coordinator,
                [](Members* members, const RevokeTokenRequest& request, const Caller&,
                   Moment moment) { return members->RevokeToken(request.id(), moment); }));
  calls->Add<ListMembersRequest>(
      "/monsoon.MemberService/ListMembers", faults,
      ToMembers(coordinator,
                [](Members* members, const ListMembersRequest&, const Caller&, Moment moment) {
                  return absl::StatusOr<ListMembersReply>(members->ListMembers(moment));
                }));
  calls->Add<RevokeMemberRequest>(
      "/monsoon.MemberService/RevokeMember", faults,
      ToMembers(coordinator,
                [](Members* members, const RevokeMemberRequest& request, const Caller&,
                   Moment moment) { return members->RevokeMember(request.member(), moment); }));
}

}  // namespace monsoon
