// Whole jobs from their parts.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/test_parts.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::MakeTestJob;
using testing::SameFloats;
using testing::StatusIs;
using testing::TestContent;
using testing::TestJob;
using testing::WriteTestGeneration;
using testing::WriteTestPart;

constexpr char kFolder[] = "/s/jobs/tiny-1@7";

class LoadTest : public ::testing::Test {
 protected:
  absl::StatusOr<LoadedCheckpoint> Newest() { return LoadNewest(&storage_, kFolder, &skipped_); }
  // Of the only generation.
  absl::Status LoadOnly() {
    const auto found = ListGenerations(&storage_, kFolder);
    EXPECT_EQ(found->size(), 1u);
    return LoadGeneration(&storage_, (*found)[0]).status();
  }
  // Shard 1 of generation 5, changed.
  absl::Status WriteOther(const TestJob& job, const std::function<void(ShardCheckpoint*)>& change) {
    ShardCheckpoint content = TestContent(job, 1, 5);
    change(&content);
    auto writer = PartWriter::Create(&storage_, kFolder, job.layout, content);
    EXPECT_OK(writer);
    EXPECT_OK(testing::AddAllStripes(job, 1, writer->get()));
    return (*writer)->Finish([] { return absl::OkStatus(); }).status();
  }

  SimulatedStorage storage_;
  std::vector<std::string> skipped_;
};

// Stripes have one or two differences of the same session.
TEST_F(LoadTest, DifferencesInOpenRoundsAreCountedOnce) {
  const TestJob job = MakeTestJob({.rounds = true});
  ASSERT_OK(WriteTestGeneration(&storage_, kFolder, job, 5));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Newest());
  EXPECT_TRUE(SameFloats(loaded.state, job.state));
  EXPECT_EQ(loaded.content.state_slots(), 3u);
  EXPECT_EQ(OptimizerSlots(loaded.content), 1u);
  EXPECT_EQ(loaded.in_rounds, 2u);
  SimulatedStorage other;
  ASSERT_OK(WriteTestGeneration(&other, kFolder, MakeTestJob({}), 5));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint without, LoadNewest(&other, kFolder, nullptr));
  EXPECT_EQ(OptimizerSlots(without.content), 1u);
  EXPECT_EQ(without.in_rounds, 0u);
}

TEST_F(LoadTest, AllIsAsItWas) {
  for (const uint32_t shards : {1u, 2u, 3u}) {
    for (const uint32_t slots : {0u, 1u, 2u}) {
      const uint32_t vectors = slots * (shards - 1);  // they do not count
      SimulatedStorage storage;
      const TestJob job = MakeTestJob({.model = testing::kConvModel,
                                       .shards = shards,
                                       .max_stripe_bytes = 192,
                                       .state_slots = slots,
                                       .vectors = vectors});
      ASSERT_OK(WriteTestGeneration(&storage, kFolder, job, 5));
      ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, LoadNewest(&storage, kFolder, nullptr));
      EXPECT_TRUE(SameFloats(loaded.parameters, job.parameters));
      EXPECT_TRUE(SameFloats(loaded.state, job.state));
      EXPECT_EQ(loaded.layout.Hash(), job.layout.Hash());
      EXPECT_EQ(loaded.map.shards(), shards);
      EXPECT_EQ(loaded.map.stripe_floats(), job.map.stripe_floats());
      EXPECT_EQ(loaded.content.SerializeAsString(), TestContent(job, 0, 5).SerializeAsString());
      uint64_t bytes = 0;
      ASSERT_EQ(loaded.versions.size(), shards);
      for (uint32_t shard = 0; shard < shards; ++shard) {
        ASSERT_EQ(loaded.versions[shard].size(), job.map.stripes(shard));
        EXPECT_EQ(loaded.versions[shard].back(), 1000 * shard + job.map.stripes(shard));
        const auto part = storage.Open(
            absl::StrCat(kFolder, "/ps-", shard, "-of-", shards, ".g5.e1.safetensors"));
        bytes += (*part)->bytes();
      }
      EXPECT_EQ(loaded.bytes, bytes);
    }
  }
}

TEST_F(LoadTest, TheNewestThatIsComplete) {
  const TestJob old_job = MakeTestJob({.seed = 1});
  const TestJob new_job = MakeTestJob({.seed = 2});
  ASSERT_OK(WriteTestGeneration(&storage_, kFolder, old_job, 5));
  ASSERT_OK(WriteTestPart(&storage_, kFolder, new_job, 1, 6));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Newest());
  EXPECT_TRUE(SameFloats(loaded.parameters, old_job.parameters));
  EXPECT_THAT(skipped_, ElementsAre(AllOf(HasSubstr("generation 6"), HasSubstr("shard 0"))));
  ASSERT_OK(WriteTestPart(&storage_, kFolder, new_job, 0, 6));
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint newer, Newest());
  EXPECT_TRUE(SameFloats(newer.parameters, new_job.parameters));
  EXPECT_THAT(skipped_, IsEmpty());
}

TEST_F(LoadTest, ADamagedGenerationIsSkippedByName) {
  const TestJob job = MakeTestJob({});
  ASSERT_OK(WriteTestGeneration(&storage_, kFolder, job, 5));
  ASSERT_OK(WriteTestGeneration(&storage_, kFolder, job, 6));
  const std::string file = absl::StrCat(kFolder, "/ps-1-of-2.g6.e1.safetensors");
  const uint64_t bytes = (*storage_.Open(file))->bytes();
  storage_.Truncate(file, bytes - 1);
  ASSERT_OK_AND_ASSIGN(const LoadedCheckpoint loaded, Newest());
  EXPECT_EQ(loaded.content.generation(), 5u);
  EXPECT_THAT(skipped_, ElementsAre(AllOf(HasSubstr("generation 6"), HasSubstr(file))));
}

TEST_F(LoadTest, WithoutAGoodOneTheReasonsAreTold) {
  const TestJob job = MakeTestJob({});
  EXPECT_THAT(Newest().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(kFolder)));
  ASSERT_OK(storage_.MakeFolder(kFolder));
  EXPECT_THAT(Newest().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(kFolder)));
  ASSERT_OK(WriteTestPart(&storage_, kFolder, job, 1, 6));
  EXPECT_THAT(Newest().status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("generation 6")));
  ASSERT_OK(WriteTestGeneration(&storage_, kFolder, job, 5));
  const std::string file = absl::StrCat(kFolder, "/ps-0-of-2.g5.e1.safetensors");
  storage_.CorruptByte(file, (*storage_.Open(file))->bytes() / 2, 3);
  EXPECT_THAT(Newest().status(),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("generation 6"), HasSubstr("generation 5"))));
}

TEST_F(LoadTest, PartsOfDifferentJobsAreNotJoined) {
  const TestJob job = MakeTestJob({});
  struct Case {
    const char* what;
    std::function<void(ShardCheckpoint*)> change;
  };
  const Case kCases[] = {
      {"its job", [](ShardCheckpoint* c) { c->mutable_create()->set_job("other"); }},
      {"its job", [](ShardCheckpoint* c) { c->mutable_create()->set_job_term(9); }},
      {"its description", [](ShardCheckpoint* c) { c->mutable_create()->set_seed(9); }},
      {"its progress",
       [](ShardCheckpoint* c) { c->mutable_context()->mutable_downpour()->set_steps(9); }},
      {"its progress", [](ShardCheckpoint* c) { c->mutable_context()->set_final(true); }},
  };
  ASSERT_OK(WriteTestPart(&storage_, kFolder, job, 0, 5));
  const std::string other = absl::StrCat(kFolder, "/ps-1-of-2.g5.e1.manifest");
  for (const Case& test_case : kCases) {
    ASSERT_OK(WriteOther(job, test_case.change));
    EXPECT_THAT(LoadOnly(), StatusIs(absl::StatusCode::kDataLoss,
                                     AllOf(HasSubstr(other), HasSubstr(test_case.what))));
    ASSERT_OK(storage_.Remove(other));
  }
}

TEST_F(LoadTest, OtherMapsAndLayoutsAreNotJoined) {
  ASSERT_OK(WriteTestPart(&storage_, kFolder, MakeTestJob({}), 0, 5));
  const struct {
    const char* what;
    TestJob job;
  } kOthers[] = {
      {"its layout", MakeTestJob({.model = testing::kConvModel})},
      {"its optimizer state", MakeTestJob({.state_slots = 0})},
      {"its description", MakeTestJob({.max_stripe_bytes = 128})},
  };
  for (const auto& other : kOthers) {
    ASSERT_OK(WriteTestPart(&storage_, kFolder, other.job, 1, 5));
    EXPECT_THAT(LoadOnly(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(other.what)));
    ASSERT_OK(storage_.Remove(absl::StrCat(kFolder, "/ps-1-of-2.g5.e1.manifest")));
  }
}

TEST_F(LoadTest, ARepeatedOrderIsTheSameProgress) {
  const TestJob job = MakeTestJob({});
  ASSERT_OK(WriteTestPart(&storage_, kFolder, job, 0, 5));
  ASSERT_OK(WriteOther(job, [](ShardCheckpoint* content) {
    content->mutable_context()->set_ordered_ms(1);
    content->mutable_context()->set_reason("every 10 s");
    content->mutable_context()->set_elapsed_s(2);
  }));
  EXPECT_OK(LoadOnly());
}

TEST_F(LoadTest, PartsOfSeveralEpochsAreOneGeneration) {
  const TestJob job = MakeTestJob({});
  ASSERT_OK(WriteTestPart(&storage_, kFolder, job, 0, 5, /*epoch=*/3));
  ASSERT_OK(WriteTestPart(&storage_, kFolder, job, 1, 5, /*epoch=*/2));
  EXPECT_OK(LoadOnly());
}

}  // namespace
}  // namespace monsoon
