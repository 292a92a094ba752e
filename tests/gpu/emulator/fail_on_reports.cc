// Lets the GoogleTest case fail in which the emulator reported something.
#include "gtest/gtest.h"
#include "tests/gpu/emulator/report.h"

namespace monsoon::emulator {
namespace {

class FailOnReports : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& /*test*/) override { before_ = ReportCount(); }
  void OnTestEnd(const ::testing::TestInfo& /*test*/) override {
    EXPECT_EQ(ReportCount(), before_) << "the CUDA emulator reported something, see above";
  }

  uint64_t before_ = 0;
};

const bool added = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new FailOnReports);
  return true;
}();

}  // namespace
}  // namespace monsoon::emulator
