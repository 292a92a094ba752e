#include "worker/backend/device.h"

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/backend/backend.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(DeviceTest, TheCpuIsAlwaysThere) {
  ASSERT_OK_AND_ASSIGN(const BackendChoice choice, ChooseBackend(CPU, 0));
  EXPECT_EQ(choice.kind, BackendKind::kCpu);
  EXPECT_EQ(choice.note, "");
}

TEST(DeviceTest, AutoTakesAGpuWhereOneComputesAndSaysWhyElse) {
  ASSERT_OK_AND_ASSIGN(const BackendChoice choice, ChooseBackend(AUTO, 0));
  EXPECT_EQ(choice.kind == BackendKind::kCuda, ChooseBackend(CUDA, 0).ok());
  // Nothing to tell where a GPU computes, and of a build without CUDA the worker tells.
  EXPECT_EQ(choice.note.empty(), choice.kind == BackendKind::kCuda || !CudaBuiltIn());
  if (CudaBuiltIn() && CudaDeviceCount() == 0) {
    EXPECT_THAT(choice.note, StartsWith("this machine has no usable GPU: "));
  }
}

TEST(DeviceTest, AutoFallsBackWhereTheDeviceDoesNotExist) {
  ASSERT_OK_AND_ASSIGN(const BackendChoice choice, ChooseBackend(AUTO, 1'000'000));
  EXPECT_EQ(choice.kind, BackendKind::kCpu);
  if (CudaDeviceCount() > 0) {
    EXPECT_TRUE(choice.is_warning);
    EXPECT_THAT(choice.note, StartsWith("there is no GPU 1000000; CUDA sees "));
  }
}

TEST(DeviceTest, CudaThatIsNotThereSaysWhyAndWhatToDo) {
  const auto choice = ChooseBackend(CUDA, 1'000'000);
  if (!CudaBuiltIn()) {
    EXPECT_THAT(choice.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          StartsWith("CUDA is not built in: build with")));
  } else if (CudaDeviceCount() == 0) {
    EXPECT_THAT(choice.status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         StartsWith("device CUDA: this machine has no usable GPU: ")));
    EXPECT_THAT(choice.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("or use device: CPU or AUTO")));
  } else {
    EXPECT_THAT(choice.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("there is no GPU 1000000")));
  }
}

TEST(DeviceTest, WaitsSleepWhereCoresAreFew) {
  EXPECT_TRUE(WaitsSleep(2, 1, ""));
  EXPECT_TRUE(WaitsSleep(3, 1, ""));
  EXPECT_FALSE(WaitsSleep(4, 1, ""));
  EXPECT_TRUE(WaitsSleep(16, 8, ""));
  EXPECT_FALSE(WaitsSleep(16, 7, ""));
  EXPECT_FALSE(WaitsSleep(2, 1, "spin"));
  EXPECT_TRUE(WaitsSleep(64, 1, "sleep"));
  EXPECT_FALSE(WaitsSleep(64, 1, "?"));
}

TEST(DeviceTest, DescribesTheBuild) {
  EXPECT_THAT(DescribeCuda(), StartsWith(CudaBuiltIn() ? "CUDA 1" : "CUDA is not built in"));
  EXPECT_EQ(DescribeCudaDevice(1'000'000), "");
  EXPECT_EQ(DescribeCudaDevice(0).empty(), CudaDeviceCount() == 0);
}

}  // namespace
}  // namespace monsoon
