#include "common/security/identity.h"

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

TEST(IdentityTest, HasOneText) {
  const std::vector<std::pair<Identity, std::string>> cases = {
      {{Role::kCoordinator, "0", "lab", ""}, "monsoon://lab/coordinator/0"},
      {{Role::kPs, "12", "lab", ""}, "monsoon://lab/ps/12"},
      {{Role::kWorker, "7", "a.b-c_d", ""}, "monsoon://a.b-c_d/worker/7"},
      {{Role::kWorker, "guest-5f3a", "lab", "lenet-1"},
       "monsoon://lab/worker/guest-5f3a?job=lenet-1"},
      {{Role::kOperator, "ada", "LAB", ""}, "monsoon://LAB/operator/ada"},
      {{Role::kViewer, "ada.l", "lab", "x"}, "monsoon://lab/viewer/ada.l?job=x"},
  };
  for (const auto& [identity, text] : cases) {
    EXPECT_OK(CheckIdentity(identity));
    EXPECT_EQ(ToUri(identity), text);
    ASSERT_OK_AND_ASSIGN(const Identity parsed, ParseIdentity(text));
    EXPECT_EQ(parsed, identity) << text;
  }
  EXPECT_EQ(MemberName({Role::kWorker, "7", "lab", ""}), "worker/7");
}

TEST(IdentityTest, MalformedTextsAreRefusedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "does not begin with monsoon://"},
      {"lab/ps/0", "does not begin with monsoon://"},
      {"MONSOON://lab/ps/0", "does not begin with monsoon://"},
      {" monsoon://lab/ps/0", "does not begin with monsoon://"},
      {"https://lab/ps/0", "does not begin with monsoon://"},
      {"monsoon:///ps/0", "no cluster"},
      {"monsoon://", "no cluster"},
      {"monsoon://lab", "no role \"\""},
      {"monsoon://lab/", "no role \"\""},
      {"monsoon://lab/ps", "no name"},
      {"monsoon://lab/ps/", "no name"},
      {"monsoon://lab/root/0", "no role \"root\""},
      {"monsoon://lab/PS/0", "no role \"PS\""},
      {"monsoon://lab/joiner/0", "no role \"joiner\""},
      {"monsoon://lab//ps/0", "no role \"\""},
      {"monsoon://lab/ps/0/", "its name is \"0/\""},
      {"monsoon://lab/ps/ps/0", "its name is \"ps/0\""},
      {"monsoon://lab/worker/../0", "its name is \"../0\""},
      {"monsoon://lab/worker/..", "its name is \"..\""},
      {"monsoon://lab/worker/-x", "its name is \"-x\""},
      {"monsoon://lab/ps/a", "a ps has a number"},
      {"monsoon://lab/coordinator/main", "a coordinator has a number"},
      {"monsoon://lab/ps/00", "begins with 0"},
      {"monsoon://lab/worker/07", "begins with 0"},
      {"monsoon://lab/ps/0 ", "its name is \"0 \""},
      {"monsoon://lab/ps/0\n", "its name is \"0\\n\""},
      {"monsoon://lab/ps/0#x", "its name is \"0#x\""},
      {"monsoon://l%61b/ps/0", "its cluster is \"l%61b\""},
      {"monsoon://u@lab/ps/0", "its cluster is \"u@lab\""},
      {"monsoon://lab:443/ps/0", "its cluster is \"lab:443\""},
      {"monsoon://lab/ps/0?", "only ?job=JOB may stand"},
      {"monsoon://lab/ps/0?JOB=a", "only ?job=JOB may stand"},
      {"monsoon://lab/ps/0?role=operator", "only ?job=JOB may stand"},
      {"monsoon://lab/ps/0?job=", "no job"},
      {"monsoon://lab/ps/0?job=a&job=b", "its job is \"a&job=b\""},
      {"monsoon://lab/ps/0?job=a?job=b", "its job is \"a?job=b\""},
      {"monsoon://lab/worker/\xc3\xa4", "its name is \"\\xc3\\xa4\""},
      {std::string("monsoon://lab/ps/0\0", 19), "its name is \"0\\x00\""},
      {"monsoon://lab/worker/\x1b[2J", "its name is \"\\x1b[2J\""},
      {absl::StrCat("monsoon://", std::string(64, 'a'), "/ps/0"), "63 are the most"},
      {absl::StrCat("monsoon://lab/worker/", std::string(49, 'a')), "48 are the most"},
      {absl::StrCat("monsoon://lab/ps/0?job=", std::string(129, 'a')), "128 are the most"},
  };
  for (const auto& [text, reason] : cases) {
    EXPECT_THAT(ParseIdentity(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(reason)))
        << text;
  }
}

// Whatever parses is what ToUri makes of it: no two texts mean the same.
TEST(IdentityTest, ChangedTextsParseToThemselvesOrNotAtAll) {
  constexpr absl::string_view kBytes("abz019AZ._-/?=:%@#& \n\0\x1b\xff", 24);
  std::mt19937 random(40);
  const auto below = [&](size_t end) { return random() % end; };
  int parsed = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = "monsoon://lab/worker/guest-5f3a?job=lenet-1";
    for (uint64_t edits = 1 + below(2); edits > 0; --edits) {
      const size_t at = below(text.size());
      if (below(3) == 0) {
        text.erase(at, 1);
      } else {
        text[at] = kBytes[below(kBytes.size())];
      }
    }
    const absl::StatusOr<Identity> identity = ParseIdentity(text);
    if (identity.ok()) {
      ++parsed;
      EXPECT_EQ(ToUri(*identity), text);
    }
  }
  EXPECT_GT(parsed, 1'000);
}

}  // namespace
}  // namespace monsoon
