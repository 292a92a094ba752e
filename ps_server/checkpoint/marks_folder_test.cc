#include "ps_server/checkpoint/marks_folder.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kStripes = 3;
constexpr SessionId kFirst{2, 5};
constexpr SessionId kSecond{11, 1};

class MarksFolderTest : public ::testing::Test {
 protected:
  MarksFolderTest() {
    create_.set_job("job/1");
    create_.set_job_term(4);
  }

  // Another life, or another boot of the host.
  std::unique_ptr<SessionMarks> Open(bool fresh = false, const std::string& boot = "boot-1") {
    folder_ = std::make_unique<MarksFolder>(path_, boot);
    return folder_->OpenJob(create_, kStripes, fresh);
  }

  const std::string path_ = absl::StrCat(
      ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
  CreateShardJobRequest create_;
  std::unique_ptr<MarksFolder> folder_;
};

TEST_F(MarksFolderTest, MarksOutliveTheirLife) {
  {
    const auto marks = Open();
    EXPECT_THAT(marks->Earlier(), IsEmpty());
    const std::span<std::atomic<uint64_t>> first = marks->Open(kFirst);
    ASSERT_EQ(first.size(), kStripes);
    EXPECT_TRUE(marks->complete(kFirst));
    first[0] = 7;
    first[2] = 9;
    marks->Open(kSecond)[1] = 1;
    EXPECT_EQ(marks->Open(kFirst).data(), first.data());
  }
  const auto marks = Open();
  EXPECT_THAT(marks->Earlier(), ElementsAre(kFirst, kSecond));
  const std::span<std::atomic<uint64_t>> first = marks->Open(kFirst);
  EXPECT_THAT(std::vector<uint64_t>(first.begin(), first.end()), ElementsAre(7, 0, 9));
  EXPECT_TRUE(marks->complete(kFirst));
  EXPECT_TRUE(marks->Forget(kFirst));
  EXPECT_THAT(marks->Earlier(), ElementsAre(kSecond));
  EXPECT_EQ(marks->Open(kFirst)[0], 0u);
  EXPECT_THAT(Open(/*fresh=*/true)->Earlier(), IsEmpty());
}

TEST_F(MarksFolderTest, AfterAnotherBootTheyAreTheLeast) {
  Open()->Open(kFirst)[0] = 7;
  const auto marks = Open(false, "boot-2");
  EXPECT_EQ(marks->Open(kFirst)[0], 7u);
  EXPECT_FALSE(marks->complete(kFirst));
  EXPECT_FALSE(marks->complete(kSecond));
  marks->Open(kSecond);
  EXPECT_TRUE(marks->complete(kSecond));
  // A host that does not tell its boots may have had one.
  const auto unknown = Open(true, "");
  unknown->Open(kFirst);
  EXPECT_FALSE(unknown->complete(kFirst));
}

// The name was on the disk and the content not.
TEST_F(MarksFolderTest, AFileThatCameShortSaysNothing) {
  Open()->Open(kFirst)[0] = 7;
  for (const auto& job : std::filesystem::directory_iterator(path_)) {
    for (const auto& file : std::filesystem::directory_iterator(job.path())) {
      std::filesystem::resize_file(file.path(), 0);
    }
    std::ofstream(job.path() / "other");
  }
  const auto marks = Open();
  EXPECT_THAT(marks->Earlier(), ElementsAre(kFirst));
  EXPECT_EQ(marks->Open(kFirst)[0], 0u);
  EXPECT_FALSE(marks->complete(kFirst));
}

TEST_F(MarksFolderTest, JobsThatAreGoneLeaveNothing) {
  const std::string jobs = path_ + "/kept";
  const auto live = Open();
  live->Open(kFirst);
  create_.set_job("job-2");
  folder_->OpenJob(create_, kStripes, true)->Open(kFirst);
  create_.set_job("job-3");
  folder_->OpenJob(create_, kStripes, true)->Open(kFirst);
  std::filesystem::create_directories(jobs + "/job-3@4");
  folder_->RemoveOthers(jobs);
  EXPECT_THAT(folder_->OpenJob(create_, kStripes, false)->Earlier(), ElementsAre(kFirst));
  create_.set_job("job-2");
  EXPECT_THAT(folder_->OpenJob(create_, kStripes, false)->Earlier(), IsEmpty());
  EXPECT_THAT(live->Earlier(), ElementsAre(kFirst));
  folder_->Remove("job/1", 4);
  EXPECT_THAT(live->Earlier(), IsEmpty());
}

TEST_F(MarksFolderTest, WhereNothingCanBeMadeThereAreNone) {
  MarksFolder folder("/proc/no/marks", "boot-1");
  const auto marks = folder.OpenJob(create_, kStripes, true);
  EXPECT_TRUE(marks->Open(kFirst).empty());
  EXPECT_THAT(marks->Earlier(), IsEmpty());
}

}  // namespace
}  // namespace monsoon
