#include "common/security/token_book.h"

#include <string>
#include <vector>

#include "common/security/digest.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);  // 2027-01-15T08:00:00Z
const Authority kLab = {"lab", Sha256("lab's key"), {}};
const std::string kOneKey = Sha256("one");
const std::string kOtherKey = Sha256("other");
const std::string kThirdKey = Sha256("third");

// Keeps each update, so that a replay of them can be compared.
class TokenBookTest : public ::testing::Test {
 protected:
  void TearDown() override {
    JoinTokens replayed;
    for (const JoinTokenUpdate& update : updates_) {
      ASSERT_OK(TokenBook::Apply(update, &replayed));
    }
    EXPECT_EQ(replayed.SerializeAsString(), tokens_.SerializeAsString());
  }

  void Apply(const JoinTokenUpdate& update) {
    ASSERT_OK(TokenBook::Apply(update, &tokens_));
    updates_.push_back(update);
  }
  JoinToken Create(const TokenTerms& terms, absl::Time now = kNow) {
    JoinToken token = DrawToken(kLab);
    const absl::StatusOr<JoinTokenUpdate> update = book_.Create(terms, token, now);
    EXPECT_OK(update);
    Apply(*update);
    return token;
  }
  absl::Status Redeem(const JoinToken& token, const std::string& key, absl::Time now = kNow) {
    const absl::StatusOr<Redemption> redemption = book_.Redeem(token.id, token.secret, key, now);
    if (redemption.ok() && redemption->update.has_value()) {
      Apply(*redemption->update);
    }
    return redemption.status();
  }

  JoinTokens tokens_;
  const TokenBook book_{&tokens_};
  std::vector<JoinTokenUpdate> updates_;
};

TEST_F(TokenBookTest, ATokenIsWhatItWasMadeFor) {
  const JoinToken token = Create({Role::kViewer, absl::Hours(1), 2, "lenet-1", "for Ada"});
  ASSERT_OK_AND_ASSIGN(const Redemption redemption,
                       book_.Redeem(token.id, token.secret, kOneKey, kNow));
  EXPECT_EQ(redemption.role, Role::kViewer);
  EXPECT_EQ(redemption.job, "lenet-1");
  ASSERT_EQ(tokens_.token_size(), 1);
  EXPECT_EQ(tokens_.token(0).note(), "for Ada");
  EXPECT_EQ(tokens_.token(0).uses_left(), 2u);  // nothing counts before its update
}

TEST_F(TokenBookTest, TheSecretIsNowhere) {
  const JoinToken token = Create({});
  ASSERT_OK(Redeem(token, kOneKey));
  const std::string bytes = tokens_.SerializeAsString();
  EXPECT_THAT(bytes, Not(HasSubstr(token.secret)));
  EXPECT_THAT(bytes, Not(HasSubstr(token.secret.substr(0, 8))));
  EXPECT_EQ(tokens_.token(0).secret_sha256(), Sha256(token.secret));
}

TEST_F(TokenBookTest, EachKeyIsOneUse) {
  const JoinToken token = Create({Role::kWorker, absl::Hours(1), 2});
  ASSERT_OK(Redeem(token, kOneKey));
  ASSERT_OK(Redeem(token, kOneKey));  // its answer was lost
  EXPECT_EQ(tokens_.token(0).uses_left(), 1u);
  ASSERT_OK(Redeem(token, kOtherKey));
  EXPECT_THAT(Redeem(token, kThirdKey),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("is used up: 2 joined"), HasSubstr(token.id))));
  ASSERT_OK(Redeem(token, kOneKey));
  EXPECT_EQ(TokenBook::EndOf(tokens_.token(0), kNow), "used up");
}

TEST_F(TokenBookTest, AWrongSecretTellsNothingElse) {
  const JoinToken token = Create({});
  for (size_t i = 0; i < token.secret.size(); ++i) {
    JoinToken wrong = token;
    wrong.secret[i] = static_cast<char>(wrong.secret[i] ^ 1);
    EXPECT_THAT(Redeem(wrong, kOneKey, kNow + absl::Hours(100)),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("is wrong")));
    // The beginning of a secret is none.
    wrong.secret = token.secret.substr(0, i);
    EXPECT_THAT(Redeem(wrong, kOneKey),
                StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("is wrong")));
  }
}

TEST_F(TokenBookTest, AnUnknownOneIsToldSo) {
  Create({});
  EXPECT_THAT(Redeem(DrawToken(kLab), kOneKey),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("there is no token")));
  EXPECT_THAT(book_.Revoke("0123456789ab", kNow).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no token 0123456789ab")));
}

TEST_F(TokenBookTest, AnExpiredOneSaysSinceWhen) {
  const JoinToken token = Create({Role::kWorker, absl::Hours(1), 9});
  ASSERT_OK(Redeem(token, kOneKey, kNow + absl::Hours(1) - absl::Milliseconds(1)));
  EXPECT_THAT(Redeem(token, kOtherKey, kNow + absl::Hours(1)),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("expired at")));
  EXPECT_THAT(Redeem(token, kOneKey, kNow + absl::Hours(3)),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("expired at 2027-01-15T09:00:00+00:00, 2h ago by the "
                                 "coordinator's clock")));
}

TEST_F(TokenBookTest, ARevokedOneIsRefused) {
  const JoinToken token = Create({Role::kWorker, absl::Hours(1), 9});
  ASSERT_OK(Redeem(token, kOneKey));
  Apply(*book_.Revoke(token.id, kNow));
  Apply(*book_.Revoke(token.id, kNow + absl::Hours(1)));
  for (const std::string& key : {kOneKey, kOtherKey}) {
    EXPECT_THAT(Redeem(token, key, kNow + absl::Hours(2)),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr("was revoked at 2027-01-15T08:00:00")));
  }
}

TEST_F(TokenBookTest, TermsOutOfRangeAreRefused) {
  const auto refused = [&](const TokenTerms& terms, const std::string& reason) {
    EXPECT_THAT(book_.Create(terms, DrawToken(kLab), kNow).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(reason)));
  };
  refused({Role::kCoordinator}, "as its coordinator");
  refused({Role::kOperator, absl::Hours(1), 1, "lenet-1"}, "a token of role operator is for all");
  refused({Role::kWorker, absl::ZeroDuration()}, "lives for 1s to 8784h");
  refused({Role::kWorker, -absl::Hours(1)}, "lives for");
  refused({Role::kWorker, absl::InfiniteDuration()}, "lives for");
  refused({Role::kWorker, absl::Hours(1), 0}, "1 to 10000 uses");
  refused({Role::kWorker, absl::Hours(1), 10'001}, "1 to 10000 uses");
  refused({Role::kWorker, absl::Hours(1), 1, "a job"}, "its job is");
  refused({Role::kWorker, absl::Hours(1), 1, "", std::string(201, 'x')}, "at most 200 bytes");
  refused({Role::kWorker, absl::Hours(1), 1, "", "\xff"}, "is text");
}

TEST_F(TokenBookTest, WhatEndedAWeekAgoIsForgotten) {
  const JoinToken used_up = Create({Role::kWorker, absl::Hours(1000), 1});
  const JoinToken revoked = Create({Role::kWorker, absl::Hours(1000), 1});
  const JoinToken expired = Create({Role::kWorker, absl::Hours(1), 1});
  const JoinToken good = Create({Role::kWorker, absl::Hours(1000), 1});
  ASSERT_OK(Redeem(used_up, kOneKey));
  Apply(*book_.Revoke(revoked.id, kNow));
  Create({}, kNow + kEndedTokenKept - absl::Milliseconds(1));
  EXPECT_EQ(tokens_.token_size(), 5);
  Create({}, kNow + kEndedTokenKept);
  EXPECT_EQ(tokens_.token_size(), 4);
  Create({}, kNow + kEndedTokenKept + absl::Hours(1));
  EXPECT_EQ(tokens_.token_size(), 4);
  EXPECT_OK(Redeem(good, kOneKey, kNow + kEndedTokenKept));
}

TEST_F(TokenBookTest, ThereIsRoomForAThousand) {
  for (size_t i = 0; i < kMostTokens; ++i) {
    Create({});
  }
  EXPECT_THAT(book_.Create({}, DrawToken(kLab), kNow).status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("there are 1000 tokens")));
  // Those that ended a week ago are not in the way of who would have them forgotten.
  const absl::Time later = kNow + TokenTerms().lifetime + kEndedTokenKept;
  EXPECT_FALSE(book_.Create({}, DrawToken(kLab), later - absl::Milliseconds(1)).ok());
  Create({}, later);
  EXPECT_EQ(tokens_.token_size(), 1);
}

TEST_F(TokenBookTest, WhoMakesTokensHasAShareOfTheRoom) {
  for (size_t i = 0; i < kMostTokens / 2; ++i) {
    Create({.by = "operator/ada"});
  }
  EXPECT_THAT(book_.Create({.by = "operator/ada"}, DrawToken(kLab), kNow).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("operator/ada has 500 tokens, and may have 500")));
  Create({.by = "operator/bob"});
  Create({});
  const absl::Time later = kNow + TokenTerms().lifetime + kEndedTokenKept;
  EXPECT_OK(book_.Create({.by = "operator/ada"}, DrawToken(kLab), later));
}

TEST_F(TokenBookTest, TheLastTokensAreForWhoHasFew) {
  for (size_t i = 0; i < kMostTokens * 3 / 4; ++i) {
    Create({.by = i % 2 == 0 ? "operator/ada" : ""});
  }
  EXPECT_THAT(book_.Create({.by = "operator/ada"}, DrawToken(kLab), kNow).status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("operator/ada has 375 tokens, and may have 20")));
  for (size_t i = 0; i < kLeastTokens; ++i) {
    Create({.by = "operator/bob"});
  }
  EXPECT_FALSE(book_.Create({.by = "operator/bob"}, DrawToken(kLab), kNow).ok());
}

TEST_F(TokenBookTest, UpdatesOfNoDecisionAreRefused) {
  const JoinToken token = Create({});
  JoinTokenUpdate used = *book_.Redeem(token.id, token.secret, kOneKey, kNow)->update;
  Apply(used);
  EXPECT_THAT(TokenBook::Apply(used, &tokens_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                         HasSubstr("no use left for this key")));
  used.mutable_used()->set_id("0123456789ab");
  EXPECT_THAT(TokenBook::Apply(used, &tokens_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no token")));
  EXPECT_THAT(TokenBook::Apply(*book_.Create({}, token, kNow), &tokens_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is there already")));
}

}  // namespace
}  // namespace monsoon
