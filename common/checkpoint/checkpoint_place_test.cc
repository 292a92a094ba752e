#include "common/checkpoint/checkpoint_place.h"

#include <sys/stat.h>

#include <string>
#include <vector>

#include "common/checkpoint/test_parts.h"
#include "common/storage/simulated_storage.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::MakeTestJob;
using ::monsoon::testing::SameFloats;
using ::monsoon::testing::StatusIs;
using ::monsoon::testing::TestJob;
using ::monsoon::testing::WriteTestGeneration;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointPlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = JobFolder("/state", "tiny-1", 5);
    ASSERT_OK(WriteTestGeneration(&storage_, folder_, old_, 1));
    ASSERT_OK(WriteTestGeneration(&storage_, folder_, job_, 2));
    ASSERT_OK_AND_ASSIGN(generations_, ListGenerations(&storage_, folder_));
    ASSERT_EQ(generations_.size(), 2u);
  }
  std::string Part(size_t generation, size_t shard) const {
    std::string path = generations_[generation].manifest[shard];
    return path.replace(path.size() - 9, 9, ".safetensors");
  }

  SimulatedStorage storage_;
  const TestJob old_ = MakeTestJob({.seed = 1});
  const TestJob job_ = MakeTestJob({.seed = 2});
  std::string folder_;
  std::vector<GenerationParts> generations_;
};

TEST_F(CheckpointPlaceTest, AFolderIsItsNewestGeneration) {
  for (const std::string& path : {folder_, folder_ + "/"}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointPlace place, PlaceOf(&storage_, path));
    EXPECT_EQ(place.manifest, "");
    ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, LoadFrom(&storage_, place, nullptr));
    EXPECT_EQ(loaded.content.generation(), 2u);
    EXPECT_TRUE(SameFloats(loaded.parameters, job_.parameters));
  }
}

TEST_F(CheckpointPlaceTest, APartIsItsGenerationOfAllShards) {
  for (const std::string& path : {generations_[1].manifest[1], Part(1, 1)}) {
    ASSERT_OK_AND_ASSIGN(const CheckpointPlace place, PlaceOf(&storage_, path));
    EXPECT_EQ(place.folder, folder_);
    EXPECT_EQ(place.manifest, generations_[1].manifest[1]);
    std::vector<std::string> skipped;
    ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, LoadFrom(&storage_, place, &skipped));
    EXPECT_EQ(loaded.content.generation(), 1u);
    EXPECT_TRUE(SameFloats(loaded.parameters, old_.parameters));
    EXPECT_THAT(skipped, ElementsAre());
  }
}

TEST_F(CheckpointPlaceTest, WhatIsDamagedIsNotReplacedByAnotherGeneration) {
  storage_.CorruptByte(Part(1, 0), 400, 3);
  ASSERT_OK_AND_ASSIGN(const CheckpointPlace place,
                       PlaceOf(&storage_, generations_[1].manifest[1]));
  EXPECT_THAT(LoadFrom(&storage_, place, nullptr).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(Part(1, 0))));
  ASSERT_OK(storage_.Remove(generations_[0].manifest[0]));
  ASSERT_OK_AND_ASSIGN(const CheckpointPlace lonely,
                       PlaceOf(&storage_, generations_[0].manifest[1]));
  EXPECT_THAT(LoadFrom(&storage_, lonely, nullptr).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("shard 0")));
}

TEST_F(CheckpointPlaceTest, SaysWhatIsThereInstead) {
  EXPECT_THAT(PlaceOf(&storage_, "/none").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none: there is no such file")));
  EXPECT_THAT(PlaceOf(&storage_, "/none.manifest").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none.manifest")));
  EXPECT_THAT(PlaceOf(&storage_, "/state").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("is a state folder"), HasSubstr("tiny-1@5"))));
  ASSERT_OK(storage_.MakeFolder("/empty"));
  EXPECT_THAT(PlaceOf(&storage_, "/empty").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no manifest of a part")));
  ASSERT_OK(storage_.WriteAll("/empty/m.safetensors", "x"));
  EXPECT_THAT(PlaceOf(&storage_, "/empty/m.safetensors").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("m.manifest"), HasSubstr("submit --init"))));
  ASSERT_OK(storage_.WriteAll("/empty/m.npz", "x"));
  EXPECT_THAT(PlaceOf(&storage_, "/empty/m.npz").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is no checkpoint")));
}

TEST_F(CheckpointPlaceTest, WhatIsNeitherFileNorFolderIsNoCheckpoint) {
  const std::string path = ::testing::TempDir() + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(PlaceOf(PosixStorage(), path).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("fifo is neither a model's file nor the folder of a checkpoint")));
}

}  // namespace
}  // namespace monsoon
