#include "common/security/join_token.h"

#include <string>
#include <utility>
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

const Authority kLab = {"lab", Sha256("lab's key"), {}};
// 32 bytes of 0xff in base64url.
const std::string kSecret = "__________________________________________8";

std::string Text(const std::string& secret = kSecret) {
  return ToText({kLab.fingerprint, "0123456789ab", ""}) + secret;
}

TEST(JoinTokenTest, ComesBackFromItsText) {
  const JoinToken drawn = DrawToken(kLab);
  const std::string text = ToText(drawn);
  EXPECT_EQ(text.size(), 5u + 43 + 1 + 12 + 1 + 43);
  ASSERT_OK_AND_ASSIGN(const JoinToken token, ParseToken(text));
  EXPECT_EQ(token.authority, kLab.fingerprint);
  EXPECT_EQ(token.id, drawn.id);
  EXPECT_EQ(token.secret, drawn.secret);
  EXPECT_OK(ParseToken("  " + text + "\n"));
  ASSERT_OK_AND_ASSIGN(const Invitation invitation, ParseInvitation(text + "@[fe80::1]:2221"));
  EXPECT_EQ(invitation.token.secret, drawn.secret);
  EXPECT_EQ(invitation.address, "[fe80::1]:2221");
}

TEST(JoinTokenTest, EachIsAnother) {
  const JoinToken one = DrawToken(kLab);
  const JoinToken two = DrawToken(kLab);
  EXPECT_NE(one.id, two.id);
  EXPECT_NE(one.secret, two.secret);
}

TEST(JoinTokenTest, AWrongTextIsRefusedWithTheReason) {
  const std::string text = Text();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not begin with msn1."},
      {"hello", "does not begin with msn1."},
      {text.substr(1), "does not begin with msn1."},
      {"msn2" + text.substr(4), "another version than msn1"},
      {"msn10" + text.substr(4), "another version than msn1"},
      {"msn1", "it has 1 parts of 4"},
      {text.substr(0, 20), "it has 2 parts of 4"},
      {text.substr(0, 60), "it has 3 parts of 4"},
      {text.substr(0, 80), "its secret is cut short: it has 18 digits of 43"},
      {text.substr(0, text.size() - 1), "its secret is cut short: it has 42 digits of 43"},
      {text + "A", "its secret has 44 digits"},
      {text + ".x", "it has 5 parts"},
      {text + "@alpha:2221", "pasted with the coordinator's address"},
      {text + "@", "pasted with the coordinator's address"},
      {text.substr(0, 50) + "\n" + text.substr(50), "paste it as one word"},
      {text.substr(0, 90) + " " + text.substr(90), "paste it as one word"},
      {Text(std::string(42, '_') + "9"), "its secret is not written in base64url"},
      {Text(std::string(42, '/') + "8"), "its secret is not written in base64url"},
      {Text(std::string(42, '_') + "="), "its secret is not written in base64url"},
      {"msn1.." + text.substr(49), "its second part is cut short: it has 0 digits of 43"},
      {text.substr(0, 49) + "0123456789AB" + text.substr(61), "its id is not one of 12"},
      {text.substr(0, 49) + "0123456789a" + text.substr(61), "its id is not one of 12"},
  };
  for (const auto& [wrong, reason] : cases) {
    EXPECT_THAT(ParseToken(wrong).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(reason), Not(HasSubstr("____")))))
        << wrong;
  }
  EXPECT_OK(ParseToken(text));
}

TEST(JoinTokenTest, AnInvitationSaysWhere) {
  for (const std::string& text : {Text(), Text() + "@"}) {
    EXPECT_THAT(ParseInvitation(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("TOKEN@HOST:PORT")));
  }
  EXPECT_THAT(ParseInvitation(Text().substr(0, 80) + "@alpha:2221").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("secret is cut short")));
}

TEST(JoinTokenTest, TheClusterIsKnownBeforeTheSecretIsSent) {
  const JoinToken token = DrawToken(kLab);
  EXPECT_OK(CheckAuthority(token, kLab));
  EXPECT_THAT(CheckAuthority(token, {"lab", Sha256("another key"), {}}),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("not of cluster lab"), HasSubstr("Nothing secret"))));
}

}  // namespace
}  // namespace monsoon
