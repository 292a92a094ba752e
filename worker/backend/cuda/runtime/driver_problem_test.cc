#include "worker/backend/cuda/runtime/driver_problem.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kOld[] = "CUDA driver version is insufficient for CUDA runtime version";

TEST(DriverProblemTest, AnOldDriverIsToldWithBothVersions) {
  const DriverProblem problem = Explain({35, kOld, 12040, 13000, true});
  EXPECT_FALSE(problem.expected);
  EXPECT_THAT(problem.text, StartsWith("the driver supports CUDA 12.4, this build needs 13.0: "
                                       "update the driver to 580 or later, or build with the "
                                       "12.x toolkit (cudaGetDeviceCount answered error 35: "));
  EXPECT_THAT(Explain({35, kOld, 11080, 12090, true}).text,
              AllOf(HasSubstr("needs 12.9: update the driver to 525 or later"),
                    HasSubstr("with the 11.x toolkit")));
  EXPECT_THAT(Explain({35, kOld, 13000, 14000, true}).text,
              HasSubstr("update the driver, or build with the 13.x toolkit"));
}

TEST(DriverProblemTest, NoDriverMattersWhereThereIsAGpu) {
  EXPECT_TRUE(Explain({35, kOld, 0, 13000, false}).expected);
  EXPECT_THAT(Explain({35, kOld, 0, 13000, false}).text, StartsWith("there is no NVIDIA driver ("));
  EXPECT_FALSE(Explain({35, kOld, 0, 13000, true}).expected);
  EXPECT_THAT(Explain({35, kOld, 0, 13000, true}).text, HasSubstr("but there is no driver: "));
}

TEST(DriverProblemTest, HiddenGpusAreExpectedAndOtherErrorsAreNot) {
  EXPECT_TRUE(Explain({100, "no CUDA-capable device is detected", 13000, 13000, true}).expected);
  EXPECT_TRUE(Explain({0, "no error", 13000, 13000, true}).expected);
  const DriverProblem other = Explain({803, "system has unsupported combination", 0, 13000, true});
  EXPECT_FALSE(other.expected);
  EXPECT_THAT(other.text, HasSubstr("error 803: system has unsupported combination"));
}

TEST(DriverProblemTest, FindsAGpuOnThePciBus) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(::testing::TempDir()) / "pci";
  fs::remove_all(folder);
  EXPECT_FALSE(HasNvidiaGpu(folder));
  const auto add = [&](const char* name, const char* vendor, const char* kind) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "vendor") << vendor << "\n";
    std::ofstream(folder / name / "class") << kind << "\n";
  };
  add("0000:00:01.0", "0x1234", "0x030000");  // another maker's
  add("0000:01:00.1", "0x10de", "0x040300");  // its sound
  EXPECT_FALSE(HasNvidiaGpu(folder));
  add("0000:01:00.0", "0x10de", "0x030200");
  EXPECT_TRUE(HasNvidiaGpu(folder));
}

}  // namespace
}  // namespace monsoon::cuda
