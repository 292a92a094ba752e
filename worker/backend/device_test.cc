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
  ASSERT_OK_AND_ASSIGN(const BackendKind kind, ChooseBackend(CPU, 0));
  EXPECT_EQ(kind, BackendKind::kCpu);
}

TEST(DeviceTest, AutoTakesAGpuWhereThereIsOne) {
  ASSERT_OK_AND_ASSIGN(const BackendKind kind, ChooseBackend(AUTO, 0));
  EXPECT_EQ(kind, CudaDeviceCount() > 0 ? BackendKind::kCuda : BackendKind::kCpu);
}

TEST(DeviceTest, AutoFallsBackWhereTheDeviceDoesNotExist) {
  ASSERT_OK_AND_ASSIGN(const BackendKind kind, ChooseBackend(AUTO, 1'000'000));
  EXPECT_EQ(kind, BackendKind::kCpu);
}

TEST(DeviceTest, CudaThatIsNotThereSaysWhyAndWhatToDo) {
  const auto kind = ChooseBackend(CUDA, 1'000'000);
  if (!CudaBuiltIn()) {
    EXPECT_THAT(kind.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        StartsWith("CUDA is not built in: build with")));
  } else if (CudaDeviceCount() == 0) {
    EXPECT_THAT(kind.status(),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("cudaGetDeviceCount")));
  } else {
    EXPECT_THAT(kind.status(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("there is no GPU 1000000")));
  }
}

TEST(DeviceTest, DescribesTheBuild) {
  EXPECT_THAT(DescribeCuda(), StartsWith(CudaBuiltIn() ? "CUDA 1" : "CUDA is not built in"));
  EXPECT_EQ(DescribeCudaDevice(1'000'000), "");
  EXPECT_EQ(DescribeCudaDevice(0).empty(), CudaDeviceCount() == 0);
}

}  // namespace
}  // namespace monsoon
