// `worker --evaluate` and `--predict` of a checkpoint.
#include <filesystem>
#include <memory>

#include "common/checkpoint/checkpoint.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/local_run_fixture.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LocalModelTest : public LocalRunTest {
 protected:
  // One generation of two shards with `scale` times the identity.
  void Keep(uint64_t generation, float scale, bool with_job = true) {
    ASSERT_OK_AND_ASSIGN(const Job job, LoadJob(Path("job")));
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
    const std::vector<float> parameters = Identity(layout, scale);
    ASSERT_OK_AND_ASSIGN(const ShardMap map, ShardMap::Create(layout.size(), 2, 64));
    for (uint32_t shard = 0; shard < 2; ++shard) {
      ShardCheckpoint content;
      CreateShardJobRequest* const create = content.mutable_create();
      create->set_job("tiny-1");
      *create->mutable_model() = job.model();
      create->set_shard(shard);
      create->set_shards(2);
      create->set_max_stripe_bytes(64);
      create->set_layout_hash(layout.Hash());
      content.set_generation(generation);
      content.set_shard_epoch(1);
      if (with_job) {
        *content.mutable_context()->mutable_job() = job;
      }
      ASSERT_OK_AND_ASSIGN(
          const std::unique_ptr<PartWriter> writer,
          PartWriter::Create(PosixStorage(), Path("kept"), layout, std::move(content)));
      for (uint32_t i = 0; i < map.stripes(shard); ++i) {
        const Slice slice = map.stripe(shard, i);
        ASSERT_OK(writer->AddStripe(std::span(parameters).subspan(slice.begin, slice.size()), {},
                                    StripeRecord()));
      }
      ASSERT_OK(writer->Finish([] { return absl::OkStatus(); }).status());
    }
  }
  std::string File(uint64_t generation, uint32_t shard, const std::string& suffix) const {
    return absl::StrCat("kept/ps-", shard, "-of-2.g", generation, ".e1.", suffix);
  }
};

TEST_F(LocalModelTest, TheNewestGoodGenerationIsEvaluatedWithItsOwnJob) {
  WriteIdentity("job", "model.npz", 3);
  Keep(1, 3);
  Keep(2, 5);
  std::filesystem::resize_file(Path(File(2, 1, "safetensors")), 100);
  const RunOutcome of_file = Run("--evaluate", "model.npz", "job");
  ASSERT_EQ(of_file.code, 0) << of_file.err;
  const RunOutcome kept = Run("--evaluate", "kept", "");
  ASSERT_EQ(kept.code, 0) << kept.err;
  EXPECT_EQ(kept.out, of_file.out);
  EXPECT_THAT(kept.err, AllOf(HasSubstr("worker: the model is tiny-1 generation 1 in "),
                              HasSubstr("worker: passed over: generation 2: "),
                              HasSubstr(Path(File(2, 1, "safetensors")))));
  // With a job file in place of its own.
  WriteJob("other", Model("2"), "test { synthetic { examples: 6 classes: 2 } }\n");
  EXPECT_THAT(Run("--evaluate", "kept", "other").out, HasSubstr("\"examples\":6"));
}

TEST_F(LocalModelTest, APartIsItsGeneration) {
  Keep(1, 3);
  Keep(2, 5);
  const RunOutcome outcome =
      Run("--predict", File(1, 0, "manifest"), "", {"--out=" + Path("p.csv")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("tiny-1 generation 1"), Not(HasSubstr("passed over"))));
  EXPECT_EQ(Run("--predict", File(1, 1, "safetensors"), "", {"--out=" + Path("q.csv")}).code, 0);
}

TEST_F(LocalModelTest, WhatDoesNotFitOrIsDamagedIsNamed) {
  WriteIdentity("job", "model.npz", 3);
  RunOutcome outcome = Run("--evaluate", "model.npz", "");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--job=FILE is missing"));
  std::filesystem::create_directory(Path("empty"));
  outcome = Run("--evaluate", "empty", "");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(Path("empty") + " is no checkpoint"));

  Keep(1, 3, /*with_job=*/false);
  outcome = Run("--evaluate", "kept", "");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("name a job file"));
  EXPECT_EQ(Run("--evaluate", "kept", "job").code, 0);
  WriteJob("wide", Model("3"), "test { synthetic { examples: 6 classes: 3 } }\n");
  outcome = Run("--evaluate", "kept", "wide");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("out/weight is (2, 2) in the checkpoint, but (3, 2) in the job"));
  std::filesystem::resize_file(Path(File(1, 1, "safetensors")), 100);
  outcome = Run("--evaluate", "kept", "job");
  EXPECT_EQ(outcome.code, 5);
  EXPECT_THAT(outcome.err, HasSubstr(Path(File(1, 1, "safetensors"))));
}

}  // namespace
}  // namespace monsoon
