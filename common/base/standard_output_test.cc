#include "common/base/standard_output.h"

#include <cstdio>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(StandardOutputTest, WritesAllOrSaysWhyNot) {
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(WriteOutput("worker", "a line\n"));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "a line\n");

  EXPECT_EXIT(
      {
        if (std::freopen("/dev/full", "w", stdout) == nullptr) {
          std::_Exit(3);
        }
        std::_Exit(WriteOutput("worker", "a line\n") ? 0 : 5);
      },
      ::testing::ExitedWithCode(5), "worker: the output could not be written: No space left");
}

}  // namespace
}  // namespace monsoon
