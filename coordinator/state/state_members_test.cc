// Tokens and members in the durable state.
#include <string>

#include "common/security/digest.h"
#include "common/security/member_book.h"
#include "common/security/token_book.h"
#include "common/testing/status_matchers.h"
#include "coordinator/state/coordinator_state.h"
#include "coordinator/state/replayed_state.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::ReplayedState;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
const std::string kKey = Sha256("key");

StateUpdate Of(const JoinTokenUpdate& token) {
  StateUpdate update;
  *update.mutable_token_changed() = token;
  return update;
}

StateUpdate Of(const MemberUpdate& member) {
  StateUpdate update;
  *update.mutable_member_changed() = member;
  return update;
}

TEST(StateMembersTest, TokensAndMembersAreKept) {
  ReplayedState state;
  StateWriter* const writer = state.writer();
  const CoordinatorSnapshot& snapshot = writer->state().snapshot();
  const JoinToken token = {Sha256("authority"), "0123456789ab", Sha256("secret")};
  writer->Apply(Of(*TokenBook(&snapshot.tokens()).Create({}, token, kNow)));
  const TokenBook tokens(&snapshot.tokens());
  writer->Apply(Of(*tokens.Redeem(token.id, token.secret, kKey, kNow)->update));
  const Holder worker = {{Role::kWorker, "7", "lab", ""}, kKey, {}, kNow + absl::Hours(1)};
  writer->Apply(Of(*MemberBook(&snapshot.members()).Admit(worker, token.id, kNow)));
  EXPECT_EQ(snapshot.tokens().token(0).uses_left(), 0u);
  EXPECT_EQ(snapshot.members().member(0).identity(), "monsoon://lab/worker/7");
  writer->Apply(Of(*MemberBook(&snapshot.members()).Revoke("worker/7", kNow)));
  EXPECT_TRUE(MemberBook(&snapshot.members()).IsRevoked(kKey));
  EXPECT_THAT(writer->state().Serialize(), ::testing::Not(HasSubstr(token.secret)));
  for (const StateUpdate& update : state.updates()) {
    EXPECT_FALSE(MayLag(update));
  }
}

TEST(StateMembersTest, WhatIsRefusedChangesNothing) {
  CoordinatorState state;
  JoinTokenUpdate token;
  token.mutable_revoked()->set_id("0123456789ab");
  EXPECT_THAT(state.Apply(Of(token)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no token 0123456789ab")));
  MemberUpdate member;
  member.mutable_revoked()->set_key(kKey);
  EXPECT_THAT(state.Apply(Of(member)), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr("nobody is known by this key")));
  EXPECT_EQ(state.Serialize(), "");
}

}  // namespace
}  // namespace monsoon
