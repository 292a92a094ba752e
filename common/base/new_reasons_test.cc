#include "common/base/new_reasons.h"

#include <string>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(NewReasonsTest, EachReasonIsNewOnce) {
  NewReasons reasons;
  EXPECT_TRUE(reasons.Add("connection refused"));
  EXPECT_FALSE(reasons.Add("connection refused"));
  EXPECT_TRUE(reasons.Add("worker/0 is running already as pid 7, last heard 0.4 s ago"));
  EXPECT_FALSE(reasons.Add("connection refused"));
  reasons.Clear();
  EXPECT_TRUE(reasons.Add("connection refused"));
}

TEST(NewReasonsTest, NumbersMakeNoOtherReason) {
  NewReasons reasons;
  EXPECT_TRUE(reasons.Add("worker/0 is running already as pid 7, last heard 0.4 s ago"));
  EXPECT_FALSE(reasons.Add("worker/0 is running already as pid 7, last heard 12.7 s ago"));
  EXPECT_TRUE(reasons.Add("worker/0 is running already as pid 7 on attic, last heard 1.0 s ago"));
}

TEST(NewReasonsTest, RemembersNotMoreThanAFew) {
  NewReasons reasons;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(reasons.Add(std::string(i + 1, 'x')));
  }
}

}  // namespace
}  // namespace monsoon
