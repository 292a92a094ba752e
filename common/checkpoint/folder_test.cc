#include <set>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::StatusIs;

TEST(FolderTest, FoldersOfJobs) {
  EXPECT_EQ(JobsFolder("/state"), "/state/jobs");
  EXPECT_EQ(JobFolder("/state", "lenet-1", 17), "/state/jobs/lenet-1@17");
}

TEST(FolderTest, NoNameLeavesTheFolderOrIsAnothers) {
  EXPECT_EQ(JobFolder("/s", "../../etc", 1), "/s/jobs/..%2F..%2Fetc@1");
  std::set<std::string> folders;
  const std::vector<std::string> jobs = {"a",  "a@1", "a%401", "a%40", "a@",
                                         "..", "/",   "a b",   "\xff"};
  for (const std::string& job : jobs) {
    const std::string folder = JobFolder("/s", job, 1);
    EXPECT_EQ(folder.rfind('/'), std::string("/s/jobs").size()) << folder;
    folders.insert(folder);
  }
  EXPECT_EQ(folders.size(), jobs.size());
}

class ListTest : public ::testing::Test {
 protected:
  ListTest() { EXPECT_OK(storage_.MakeFolder("/f")); }
  void Touch(const std::string& name) { EXPECT_OK(storage_.Create("/f/" + name)); }

  SimulatedStorage storage_;
};

TEST_F(ListTest, NewestFirst) {
  for (const char* const name : {"ps-0-of-2.g9.e4.manifest", "ps-1-of-2.g9.e7.manifest",
                                 "ps-1-of-2.g10.e7.manifest", "ps-0-of-2.g8.e4.manifest"}) {
    Touch(name);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<GenerationParts> found, ListGenerations(&storage_, "/f"));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].generation, 10u);
  EXPECT_FALSE(found[0].complete());
  EXPECT_THAT(found[0].manifest, ElementsAre("", "/f/ps-1-of-2.g10.e7.manifest"));
  EXPECT_EQ(found[1].generation, 9u);
  EXPECT_EQ(found[1].shards, 2u);
  EXPECT_TRUE(found[1].complete());
  EXPECT_THAT(found[1].manifest,
              ElementsAre("/f/ps-0-of-2.g9.e4.manifest", "/f/ps-1-of-2.g9.e7.manifest"));
  EXPECT_EQ(found[2].generation, 8u);
  EXPECT_FALSE(found[2].complete());
}

TEST_F(ListTest, OfSeveralEpochsTheNewest) {
  for (const char* const name :
       {"ps-0-of-1.g9.e9.manifest", "ps-0-of-1.g9.e10.manifest", "ps-0-of-1.g9.e8.manifest"}) {
    Touch(name);
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<GenerationParts> found, ListGenerations(&storage_, "/f"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].manifest, ElementsAre("/f/ps-0-of-1.g9.e10.manifest"));
}

TEST_F(ListTest, OtherFilesArePassedOver) {
  for (const char* const name :
       {"ps-0-of-1.g9.e9.safetensors", ".tmp-ps-0-of-1.g9.e9.manifest", "README", "epoch"}) {
    Touch(name);
  }
  ASSERT_OK(storage_.MakeFolder("/f/ps-0-of-1.g9.e9.manifest"));
  EXPECT_THAT(*ListGenerations(&storage_, "/f"), IsEmpty());
}

TEST_F(ListTest, AMissingFolderIsNotFound) {
  EXPECT_THAT(ListGenerations(&storage_, "/no").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no")));
}

TEST(GenerationPartsTest, NothingIsNotComplete) { EXPECT_FALSE(GenerationParts{}.complete()); }

}  // namespace
}  // namespace monsoon
