#include "common/base/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Limits = std::numeric_limits<float>;

TEST(FirstNonFiniteTest, AcceptsEveryFiniteKind) {
  const std::vector<float> values = {
      0.0f, -0.0f, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(), 1.0f};
  EXPECT_EQ(FirstNonFinite(values), std::nullopt);
  EXPECT_EQ(FirstNonFinite({}), std::nullopt);
  EXPECT_TRUE(AllFinite(values));
}

TEST(FirstNonFiniteTest, FindsEachKindAtEachPlace) {
  const float kinds[] = {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                         Limits::signaling_NaN(), std::copysign(Limits::quiet_NaN(), -1.0f)};
  for (size_t place : {0u, 1u, 15u, 1023u, 1024u, 2047u, 2500u}) {
    for (float kind : kinds) {
      std::vector<float> values(2501, 1.5f);
      values[place] = kind;
      values[2500] = Limits::infinity();
      EXPECT_EQ(FirstNonFinite(values), place);
      EXPECT_FALSE(AllFinite(values));
      // Not aligned.
      EXPECT_EQ(FirstNonFinite(std::span(values).subspan(place == 0 ? 0 : 1)),
                place == 0 ? 0 : place - 1);
    }
  }
}

}  // namespace
}  // namespace monsoon
