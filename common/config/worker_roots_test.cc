#include "common/config/worker_roots.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class WorkerRootsTest : public ::testing::Test {
 protected:
  WorkerRootsTest() : folder_(fs::canonical(::testing::TempDir()) / "worker_roots") {
    for (const char* const name : {"flag", "task", "cluster", "other"}) {
      fs::create_directories(folder_ / name);
      std::ofstream(folder_ / name / "file") << name;
    }
  }
  std::string Path(const std::string& name) const { return folder_ / name; }
  bool Opens(const absl::StatusOr<DataRoots>& roots, const std::string& name) const {
    return roots.ok() && roots->OpenFile(Path(name + "/file")).ok();
  }

  const fs::path folder_;
  WorkerTask task_;
  Cluster cluster_;
};

TEST_F(WorkerRootsTest, TheNearestSayCounts) {
  cluster_.add_data_roots(Path("cluster"));
  absl::StatusOr<DataRoots> roots = RootsOfWorker({}, task_, cluster_, true);
  EXPECT_TRUE(Opens(roots, "cluster"));
  EXPECT_FALSE(Opens(roots, "task"));
  task_.add_data_roots(Path("task"));
  roots = RootsOfWorker({}, task_, cluster_, true);
  EXPECT_TRUE(Opens(roots, "task"));
  EXPECT_FALSE(Opens(roots, "cluster"));
  roots = RootsOfWorker({Path("flag"), Path("other")}, task_, cluster_, false);
  EXPECT_TRUE(Opens(roots, "flag"));
  EXPECT_TRUE(Opens(roots, "other"));
  EXPECT_FALSE(Opens(roots, "task"));
  EXPECT_FALSE(Opens(RootsOfWorker({"none"}, task_, cluster_, true), "task"));
}

TEST_F(WorkerRootsTest, OnlyTheOwnersHostIsOpenByItself) {
  EXPECT_TRUE(Opens(RootsOfWorker({}, task_, cluster_, /*beside_owner=*/true), "other"));
  const absl::StatusOr<DataRoots> roots =
      RootsOfWorker({}, task_, cluster_, /*beside_owner=*/false);
  ASSERT_OK(roots);
  EXPECT_THAT(roots->OpenFile(Path("other/file")),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("`--data=DIR`")));
}

TEST_F(WorkerRootsTest, RelativePathsOfTheCommandLineAreTheWorkingFolders) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_TRUE(Opens(RootsOfWorker({"flag"}, task_, cluster_, true), "flag"));
  fs::current_path(before);
}

TEST_F(WorkerRootsTest, RefusesWhatIsNoFolder) {
  EXPECT_THAT(RootsOfWorker({Path("none")}, task_, cluster_, true),
              StatusIs(kInvalid, HasSubstr("--data")));
  EXPECT_THAT(RootsOfWorker({"none", Path("flag")}, task_, cluster_, true),
              StatusIs(kInvalid, HasSubstr("beside others")));
  EXPECT_THAT(RootsOfWorker({""}, task_, cluster_, true), StatusIs(kInvalid, HasSubstr("\"\"")));
  cluster_.add_data_roots("data");
  EXPECT_THAT(RootsOfWorker({}, task_, cluster_, true),
              StatusIs(kInvalid, HasSubstr("no absolute path")));
  EXPECT_THAT(CheckDataFolders({"/a\nb"}), StatusIs(kInvalid, HasSubstr("control characters")));
}

}  // namespace
}  // namespace monsoon
