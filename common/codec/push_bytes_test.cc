#include "common/codec/push_bytes.h"

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(PushBytesTest, AreThoseOfTheValuesThatAreSent) {
  EXPECT_EQ(PushBytes(1000, FLOAT32, 0), 4000u);
  EXPECT_EQ(PushBytes(1000, BFLOAT16, 0), 2000u);
  EXPECT_EQ(PushBytes(1001, INT4, 0), 501u);
  EXPECT_EQ(PushBytes(1000, TOP_K, 0.1), PushBytes(100, TOP_K, 1.0));
}

}  // namespace
}  // namespace monsoon
