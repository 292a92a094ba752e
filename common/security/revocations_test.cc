#include "common/security/revocations.h"

#include <string>
#include <vector>

#include "common/security/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

MemberKey Key(const std::string& name, absl::Duration left) {
  MemberKey key;
  key.set_fingerprint(Sha256(name));
  key.set_not_after_ms(absl::ToUnixMillis(kNow + left));
  return key;
}

TEST(RevocationsTest, EqualListsHaveEqualVersions) {
  const MemberKey one = Key("one", absl::Hours(1));
  const MemberKey two = Key("two", absl::Hours(2));
  const Revocations list = MakeRevocations({one, two});
  EXPECT_EQ(MakeRevocations({two, one, two}).SerializeAsString(), list.SerializeAsString());
  EXPECT_NE(list.version(), 0u);
  EXPECT_NE(MakeRevocations({one}).version(), list.version());
  EXPECT_NE(MakeRevocations({one, Key("two", absl::Hours(3))}).version(), list.version());
  EXPECT_EQ(MakeRevocations({}).version(), 0u);
  // The later end of a key counts.
  EXPECT_EQ(MakeRevocations({one, Key("one", absl::Minutes(1))}).version(),
            MakeRevocations({one}).version());
}

TEST(RevocationsTest, KeysStayUntilTheirCertificatesHaveEnded) {
  RevokedKeys keys;
  EXPECT_FALSE(keys.Contains(Sha256("one")));
  EXPECT_TRUE(keys.Add(MakeRevocations({Key("one", absl::Hours(1))}), kNow));
  EXPECT_FALSE(keys.Add(MakeRevocations({Key("one", absl::Hours(1))}), kNow));
  // A list without it does not take it away.
  EXPECT_TRUE(keys.Add(MakeRevocations({Key("two", absl::Hours(2))}), kNow));
  EXPECT_TRUE(keys.Contains(Sha256("one")));
  EXPECT_TRUE(keys.Contains(Sha256("two")));
  EXPECT_FALSE(keys.Contains(Sha256("one").substr(0, 31)));
  EXPECT_EQ(keys.All().key_size(), 2);
  EXPECT_FALSE(keys.Add(Revocations(), kNow + absl::Hours(1)));
  EXPECT_TRUE(keys.Contains(Sha256("one")));
  EXPECT_TRUE(keys.Add(Revocations(), kNow + absl::Hours(1) + absl::Milliseconds(1)));
  EXPECT_FALSE(keys.Contains(Sha256("one")));
  EXPECT_TRUE(keys.Contains(Sha256("two")));
}

TEST(RevocationsTest, WhatIsNoKeyAndMoreThanThereCanBeIsPassedOver) {
  RevokedKeys keys;
  Revocations list;
  list.add_key()->set_not_after_ms(absl::ToUnixMillis(kNow + absl::Hours(1)));
  EXPECT_FALSE(keys.Add(list, kNow));
  for (size_t i = 0; i < kMostRevokedKeys + 1; ++i) {
    *list.add_key() = Key(std::to_string(i), absl::Hours(1));
  }
  EXPECT_TRUE(keys.Add(list, kNow));
  EXPECT_EQ(keys.All().key_size(), static_cast<int>(kMostRevokedKeys));
}

}  // namespace
}  // namespace monsoon
