#include "ps_server/checkpoint/kept_revocations.h"

#include <string>

#include "common/security/digest.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr char kPath[] = "state/ps-0/revoked";

MemberKey Key(const std::string& name, absl::Duration left = absl::Hours(1)) {
  MemberKey key;
  key.set_fingerprint(Sha256(name));
  key.set_not_after_ms(absl::ToUnixMillis(kNow + left));
  return key;
}

class KeptRevocationsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(storage_.MakeFolder("state/ps-0")); }

  SimulatedStorage storage_;
  const Revocations one_ = MakeRevocations({Key("one")});
  const Revocations two_ = MakeRevocations({Key("one"), Key("two")});
};

TEST_F(KeptRevocationsTest, OutlivesTheProcess) {
  {
    KeptRevocations kept(&storage_, kPath, kNow);
    EXPECT_EQ(kept.version(), 0u);
    kept.Hear(two_, kNow);
    EXPECT_EQ(kept.version(), two_.version());
  }
  KeptRevocations kept(&storage_, kPath, kNow);
  EXPECT_EQ(kept.version(), two_.version());
  EXPECT_TRUE(kept.Contains(Sha256("one")));
  EXPECT_TRUE(kept.Contains(Sha256("two")));
  EXPECT_FALSE(kept.Contains(Sha256("three")));
  // What has ended by then is let go.
  const KeptRevocations later(&storage_, kPath, kNow + absl::Hours(2));
  EXPECT_FALSE(later.Contains(Sha256("one")));
}

TEST_F(KeptRevocationsTest, AnotherListTakesNobodyOff) {
  KeptRevocations kept(&storage_, kPath, kNow);
  kept.Hear(two_, kNow);
  // As of a coordinator that has lost its state.
  kept.Hear(one_, kNow);
  EXPECT_EQ(kept.version(), one_.version());
  kept.Hear(Revocations(), kNow);
  EXPECT_EQ(kept.version(), 0u);
  EXPECT_TRUE(kept.Contains(Sha256("one")));
  EXPECT_TRUE(kept.Contains(Sha256("two")));
  const KeptRevocations next(&storage_, kPath, kNow);
  EXPECT_TRUE(next.Contains(Sha256("two")));
}

TEST_F(KeptRevocationsTest, AVersionWithoutItsKeysIsNotTaken) {
  KeptRevocations kept(&storage_, kPath, kNow);
  Revocations bare;
  bare.set_version(two_.version());
  kept.Hear(bare, kNow);
  EXPECT_EQ(kept.version(), 0u);
  kept.Hear(two_, kNow);
  kept.Hear(bare, kNow);
  EXPECT_EQ(kept.version(), two_.version());
}

TEST_F(KeptRevocationsTest, WhatIsNotWrittenIsAskedForAgain) {
  KeptRevocations kept(&storage_, kPath, kNow);
  ASSERT_OK(storage_.Remove(kPath));
  storage_.FailAfter(1, absl::ResourceExhaustedError("disk full"));
  kept.Hear(one_, kNow);
  EXPECT_TRUE(kept.Contains(Sha256("one")));  // at once, all the same
  EXPECT_EQ(kept.version(), 0u);
  storage_.ClearFailure();
  kept.Hear(one_, kNow);
  EXPECT_EQ(kept.version(), one_.version());
}

TEST_F(KeptRevocationsTest, ADamagedFileIsBegunAnew) {
  for (const char* const text :
       {"", "nonsense\n", "version 5 1\n", "version 5 1\nabc 7\n", "version x 0\n"}) {
    ASSERT_OK(storage_.WriteAll(kPath, text));
    KeptRevocations kept(&storage_, kPath, kNow);
    EXPECT_EQ(kept.version(), 0u) << text;
    kept.Hear(one_, kNow);
    EXPECT_EQ(kept.version(), one_.version());
    EXPECT_TRUE(KeptRevocations(&storage_, kPath, kNow).Contains(Sha256("one")));
  }
}

TEST_F(KeptRevocationsTest, WithoutAFileItLastsAsLongAsTheProcess) {
  KeptRevocations kept(&storage_, "", kNow);
  kept.Hear(one_, kNow);
  EXPECT_EQ(kept.version(), one_.version());
  EXPECT_TRUE(kept.Contains(Sha256("one")));
}

}  // namespace
}  // namespace monsoon
