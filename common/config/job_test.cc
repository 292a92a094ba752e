#include "common/config/job.h"

#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/cluster.h"
#include "common/config/config_test_util.h"
#include "common/config/model.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/synchronous.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

std::string WriteJob(const std::string& text) {
  const std::string folder = testing::MakeFolder("job");
  testing::WriteFixtures(folder);
  testing::WriteFile(folder + "/the job.v2.textproto", text);
  return folder + "/the job.v2.textproto";
}

TEST(LoadJob, InlinesResolvesAndFillsIn) {
  const std::string path = WriteJob(testing::Replaced(
      testing::Replaced(testing::ValidJob(), "name: \"tiny\"\n", ""), "block_examples: 8\n", ""));
  const std::string folder = std::filesystem::path(path).parent_path().string();
  ASSERT_OK_AND_ASSIGN(const Job job, LoadJob(path));
  EXPECT_EQ(job.name(), "the-job");
  EXPECT_EQ(job.model_file(), "");
  EXPECT_EQ(job.model().name(), "tiny");
  EXPECT_EQ(job.model().layer_size(), 6);
  EXPECT_EQ(job.train().idx().images(), folder + "/images.idx");
  EXPECT_EQ(job.test().idx().labels(), folder + "/test-labels.idx");
  EXPECT_EQ(job.train().scale(), 1.0);
  EXPECT_EQ(job.test().scale(), 2.0);
  EXPECT_EQ(job.downpour().n_fetch(), 2u);
  EXPECT_EQ(job.downpour().n_push(), 1u);
  EXPECT_EQ(job.block_examples(), 32u);
  EXPECT_EQ(job.stripe_kib(), 1024u);
  EXPECT_EQ(job.evaluation().batch_size(), 500u);
  EXPECT_EQ(job.divergence().max_refused(), 10u);
  EXPECT_OK(ValidateJob(job));
}

TEST(LoadJob, AShareOfTheLargestIsFilledInWhereItMeansSomething) {
  for (const auto& [format, share] : {std::pair{"TOP_K", 0.01}, std::pair{"TOP_K_2BIT", 0.01},
                                      std::pair{"INT4", 0.0}, std::pair{"FLOAT32", 0.0}}) {
    const std::string path = WriteJob(testing::Replaced(
        testing::ValidJob(), "overlap: NONE", absl::StrCat("overlap: NONE push_format: ", format)));
    ASSERT_OK_AND_ASSIGN(const Job job, LoadJob(path));
    EXPECT_EQ(job.downpour().top_k_share(), share) << format;
    EXPECT_OK(ValidateJob(job)) << format;
  }
}

TEST(LoadJob, RelativePathsFollowTheJobFileNotTheWorkingFolder) {
  const std::string path = WriteJob(testing::ValidJob());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(std::filesystem::path(path).parent_path());
  const absl::StatusOr<Job> job = LoadJob("the job.v2.textproto");
  std::filesystem::current_path(before);
  ASSERT_OK(job);
  EXPECT_TRUE(std::filesystem::path(job->train().idx().images()).is_absolute());
}

TEST(LoadJob, RefusesPathsThatAreNotUtf8) {
  const std::string folder = testing::MakeFolder("caf\xe9");
  testing::WriteFixtures(folder);
  testing::WriteFile(folder + "/job.textproto", testing::ValidJob());
  for (const bool check_data_files : {false, true}) {
    EXPECT_THAT(LoadJob(folder + "/job.textproto", {.check_data_files = check_data_files}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("caf\\xe9/images.idx is not UTF-8")));
  }
}

TEST(LoadJob, AppliesOverridesAlsoToTheInlinedModel) {
  const std::string path = WriteJob(testing::ValidJob());
  ASSERT_OK_AND_ASSIGN(const Job job,
                       LoadJob(path, {.overrides = {"model.layer[5].dense.units=12",
                                                    "downpour.n_push=3", "seed=1", "seed=2"}}));
  EXPECT_EQ(job.model().layer(5).dense().units(), 12u);
  EXPECT_EQ(job.downpour().n_push(), 3u);
  EXPECT_EQ(job.seed(), 2u);
}

TEST(LoadJob, JudgesOverriddenFieldsAtTheOverride) {
  const std::string path = WriteJob(testing::ValidJob());
  std::vector<Diagnostic> diagnostics;
  EXPECT_FALSE(
      LoadJob(path,
              {.overrides = {"batch_size=0", "model.layer[5].dense.units=0", "downpour.n_fech=1"}},
              &diagnostics)
          .ok());
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(FormatDiagnostic(diagnostic));
  }
  EXPECT_THAT(lines,
              ::testing::UnorderedElementsAre(
                  "--set batch_size=0: error: batch_size: must be at least 1; as in batch_size: 64",
                  "--set model.layer[5].dense.units=0: error: model.layer[5].dense.units: must be "
                  "at least 1",
                  "--set downpour.n_fech=1: error: downpour.n_fech: Downpour has no field "
                  "\"n_fech\"; did you mean \"downpour.n_fetch\"?"));
}

TEST(LoadJob, CanLeaveDataFilesAlone) {
  const std::string path =
      WriteJob(testing::Replaced(testing::ValidJob(), "images.idx", "absent.idx"));
  EXPECT_FALSE(LoadJob(path).ok());
  EXPECT_OK(LoadJob(path, {.check_data_files = false}));
}

TEST(ValidateJob, JudgesWhatCameOverTheWire) {
  Job job;
  EXPECT_THAT(ValidateJob(job),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       ::testing::AllOf(HasSubstr("model: the job has no model"),
                                        HasSubstr("\nerror: stop: the job would never end"))));
  ASSERT_OK_AND_ASSIGN(job, LoadJob(WriteJob(testing::ValidJob())));
  job.mutable_downpour()->mutable_optimizer()->mutable_momentum()->set_rate(std::nan(""));
  EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("downpour.optimizer.momentum.rate: nan")));
  job.set_model_file("/etc/passwd");
  EXPECT_THAT(ValidateJob(job),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("model_file")));
}

TEST(ValidateJob, WhatFillsEmptyFieldsIsAFloat) {
  ASSERT_OK_AND_ASSIGN(Job job, LoadJob(WriteJob(testing::ValidJob())));
  job.mutable_train()->mutable_csv()->set_missing_value(1e300);
  EXPECT_THAT(ValidateJob(job),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("train.csv.missing_value: 1e+300 is not a finite float32")));
}

TEST(LoadJob, FillsInSandblasterDefaults) {
  std::string text = testing::ValidSandblasterJob();
  const size_t begin = text.find("sandblaster {");
  text.replace(begin, text.find("evaluation {") - begin, "sandblaster { }\n");
  ASSERT_OK_AND_ASSIGN(Job job, LoadJob(WriteJob(text)));
  const Sandblaster& filled = job.sandblaster();
  EXPECT_EQ(filled.algorithm(), Sandblaster::LBFGS);
  EXPECT_EQ(filled.history(), 10u);
  EXPECT_EQ(filled.max_iterations(), 100u);
  EXPECT_EQ(filled.line_search().c1(), 1e-4);
  EXPECT_EQ(filled.line_search().c2(), 0.9);
  EXPECT_EQ(filled.line_search().max_evaluations(), 20u);
  EXPECT_EQ(filled.chunk_examples(), 4u);
  EXPECT_EQ(filled.chunks_per_contribution(), 0u);  // depends on the replicas
  EXPECT_EQ(filled.sample_examples(), 0u);
  EXPECT_OK(ValidateJob(job));
  // What is written stays.
  ASSERT_OK_AND_ASSIGN(job, LoadJob(WriteJob(testing::ValidSandblasterJob())));
  EXPECT_EQ(job.sandblaster().history(), 5u);
  EXPECT_EQ(job.sandblaster().line_search().c1(), 0.001);
  EXPECT_EQ(job.sandblaster().chunk_examples(), 8u);
}

TEST(LoadJob, FillsInWhenCheckpointsAreMade) {
  ASSERT_OK_AND_ASSIGN(Job job, LoadJob(WriteJob(testing::ValidJob())));
  EXPECT_FALSE(job.checkpoint().off());
  EXPECT_EQ(job.checkpoint().every_seconds(), 10);
  EXPECT_EQ(job.checkpoint().every_pushes(), 0u);
  ASSERT_OK_AND_ASSIGN(job, LoadJob(WriteJob(testing::ValidJob() +
                                             "checkpoint { every_seconds: 0.1 every_pushes: 5 }")));
  EXPECT_EQ(job.checkpoint().every_seconds(), 0.1);
  EXPECT_EQ(job.checkpoint().every_pushes(), 5u);
  ASSERT_OK_AND_ASSIGN(
      job, LoadJob(WriteJob(testing::ValidJob()), {.overrides = {"checkpoint.off=true"}}));
  EXPECT_TRUE(job.checkpoint().off());
  EXPECT_EQ(job.checkpoint().every_seconds(), 0);
  EXPECT_OK(ValidateJob(job));
  job.mutable_checkpoint()->set_off(false);
  job.mutable_checkpoint()->set_every_seconds(std::nan(""));
  EXPECT_THAT(ValidateJob(job), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("checkpoint.every_seconds: nan")));
}

TEST(LoadJob, AChainHasBothParts) {
  const std::string downpour =
      testing::Replaced(testing::ValidJob(), "model.textproto", "batch-model.textproto");
  const std::string text = downpour + "sandblaster { max_iterations: 10 }\n";
  ASSERT_OK_AND_ASSIGN(Job job, LoadJob(WriteJob(text)));
  EXPECT_TRUE(job.has_downpour());
  EXPECT_EQ(job.sandblaster().max_iterations(), 10u);
  EXPECT_EQ(job.sandblaster().history(), 10u);
  EXPECT_EQ(job.stop().epochs(), 2.0);
  // An override of one of its fields makes a chain of a Downpour job too.
  ASSERT_OK_AND_ASSIGN(job, LoadJob(WriteJob(downpour), {.overrides = {"sandblaster.l2=0.5"}}));
  EXPECT_TRUE(job.has_downpour());
  EXPECT_EQ(job.sandblaster().l2(), 0.5);
}

TEST(LoadJob, OverlappingOverrides) {
  const std::string path = WriteJob(testing::ValidSandblasterJob());
  ASSERT_OK_AND_ASSIGN(
      Job job,
      LoadJob(path, {.overrides = {"sandblaster={l2: 1 history: 3}", "sandblaster.l2=0.25"}}));
  EXPECT_EQ(job.sandblaster().l2(), 0.25);
  EXPECT_EQ(job.sandblaster().history(), 3u);
  EXPECT_EQ(job.sandblaster().sample_examples(), 0u);
  ASSERT_OK_AND_ASSIGN(
      job, LoadJob(path, {.overrides = {"sandblaster.l2=-1", "sandblaster={history: 3}"}}));
  EXPECT_EQ(job.sandblaster().l2(), 0.0);
  EXPECT_THAT(
      LoadJob(path, {.overrides = {"sandblaster={l2: 1 history: 30}", "sandblaster.l2=-1"}}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(
                   HasSubstr("--set sandblaster={l2: 1 history: 30}: error: sandblaster.history: "
                             "30 is more than 20"),
                   HasSubstr("--set sandblaster.l2=-1: error: sandblaster.l2: -1 is not"))));
}

TEST(ValidateJobOnData, SampleAndContributionsFitTheData) {
  ASSERT_OK_AND_ASSIGN(Job job, LoadJob(WriteJob(testing::ValidSandblasterJob())));
  EXPECT_OK(ValidateJobOnData(job, 80));
  EXPECT_THAT(ValidateJobOnData(job, 79),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sample_examples")));
  // In runs of 2 chunks of 8: 16 samples a contribution.
  job.mutable_sandblaster()->clear_sample_examples();
  EXPECT_OK(ValidateJobOnData(job, 16384 * 16));
  EXPECT_THAT(ValidateJobOnData(job, 16384 * 16 + 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunks_per_contribution")));
  job.mutable_sandblaster()->clear_chunks_per_contribution();
  EXPECT_OK(ValidateJobOnData(job, 1'000'000'000));
}

class OnCluster : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(job_, LoadJob(WriteJob(testing::ValidJob())));
    AddShards(1);
    cluster_.add_worker()->set_address("unix:w");
  }
  void AddShards(int count) {
    for (int i = 0; i < count; ++i) {
      cluster_.add_ps()->set_address("unix:p");
    }
  }
  Job job_;
  Cluster cluster_;
};

// conv1 18 -> 32 floats, its bias 2 -> 16, dense1 20 -> 32, its bias 10 -> 16:
// 96 floats are 6 lines.
TEST_F(OnCluster, EveryShardNeedsA64ByteLine) {
  AddShards(5);
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
  AddShards(1);
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("7 shards for a model of 6 64-byte lines")));
}

TEST_F(OnCluster, ReplicasNeedWorkers) {
  job_.mutable_downpour()->set_workers(2);
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("wants 2 workers, the cluster has 1")));
}

TEST_F(OnCluster, ParametersAndStateMustFitTheMemoryLimit) {
  cluster_.mutable_ps(0)->set_memory_limit_mib(1);
  job_.mutable_model()->clear_layer();
  job_.mutable_model()->clear_input_shape();
  job_.mutable_model()->add_input_shape(1024);
  Dense* dense = job_.mutable_model()->add_layer()->mutable_dense();
  dense->set_no_bias(true);
  dense->set_units(121);  // 123,904 floats: 484 KiB, as much again for momentum, and 49.5
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
  dense->set_units(122);
  EXPECT_THAT(
      ValidateJobOnCluster(job_, cluster_),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("needs 1050112 bytes on ps/0 for 124928 floats of the model (parameters, "
                         "optimizer state), its limit is 1048576")));
  job_.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
}

TEST_F(OnCluster, AWindowOfLessThanTwoPushesIsTold) {
  job_.mutable_model()->clear_layer();
  job_.mutable_model()->clear_input_shape();
  job_.mutable_model()->add_input_shape(1024);
  job_.mutable_model()->add_layer()->mutable_dense()->set_no_bias(true);
  job_.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(256);  // 1 MiB
  EXPECT_EQ(AdviseOnCluster(job_, cluster_), "") << "the default has room for two";
  cluster_.mutable_worker(0)->set_replay_window_mib(2);
  EXPECT_EQ(AdviseOnCluster(job_, cluster_), "");
  cluster_.mutable_worker(0)->set_replay_window_mib(1);
  EXPECT_THAT(AdviseOnCluster(job_, cluster_),
              AllOf(HasSubstr("worker/0 may keep 1 MiB of pushes"), HasSubstr("replay_window_mib"),
                    HasSubstr("every step will wait for checkpoints")));
  job_.mutable_downpour()->set_push_format(BFLOAT16);
  EXPECT_EQ(AdviseOnCluster(job_, cluster_), "");
  job_.mutable_downpour()->set_push_format(FLOAT32);
  job_.mutable_checkpoint()->set_off(true);
  EXPECT_EQ(AdviseOnCluster(job_, cluster_), "");
}

TEST_F(OnCluster, TheOptimizersStateCounts) {
  const auto slots = [&](const std::string& optimizer) {
    absl::StatusOr<Job> job =
        LoadJob(WriteJob(testing::ValidJob()), {.overrides = {"downpour.optimizer=" + optimizer}});
    EXPECT_OK(job);
    const uint64_t bytes = ShardBytes(*job, 131072);
    job->mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
    job->mutable_downpour()->mutable_optimizer()->clear_average();
    return static_cast<double>(bytes - ShardBytes(*job, 131072)) / (131072 * sizeof(float));
  };
  EXPECT_EQ(slots("{ sgd { rate: 1 } }"), 0);
  EXPECT_EQ(slots("{ momentum { rate: 1 momentum: 0.5 } }"), 1);
  EXPECT_EQ(slots("{ adagrad { rate: 1 } }"), 1);
  EXPECT_EQ(slots("{ adam { rate: 1 } }"), 2);
  EXPECT_EQ(slots("{ adam_w { rate: 1 } }"), 2);
  EXPECT_EQ(slots("{ adam_w { rate: 1 } average { } }"), 3);
  EXPECT_EQ(slots("{ sgd { rate: 1 } average { } }"), 1);
  EXPECT_EQ(slots("{ rms_prop { rate: 1 } }"), 1);
  EXPECT_EQ(slots("{ rms_prop { rate: 1 momentum: 0.5 } }"), 2);
  EXPECT_EQ(slots("{ nesterov { rate: 1 momentum: 0.5 } }"), 1);
  EXPECT_EQ(slots("{ nesterov { rate: 1 momentum: 0.5 period: 2 } }"), 2);
}

TEST_F(OnCluster, TheSumOfARoundCounts) {
  EXPECT_EQ(FloatsBesideOptimizer(job_.downpour()), 0);
  const uint64_t without = ShardBytes(job_, 131072);
  job_.mutable_downpour()->mutable_rounds();
  EXPECT_EQ(FloatsBesideOptimizer(job_.downpour()), 2);
  EXPECT_EQ(ShardBytes(job_, 131072) - without, 131072u * 8);
  cluster_.mutable_ps(0)->set_memory_limit_mib(1);
  job_.mutable_model()->clear_layer();
  job_.mutable_model()->clear_input_shape();
  job_.mutable_model()->add_input_shape(1024);
  Dense* const dense = job_.mutable_model()->add_layer()->mutable_dense();
  dense->set_no_bias(true);
  dense->set_units(64);  // 16 bytes each with momentum: 1 MiB, and what is beside
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("(parameters, optimizer state, sums of rounds)")));
  dense->set_units(60);
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
}

TEST_F(OnCluster, WhereShardsOnlyStoreTheyHaveRoomForAllOnceMore) {
  const uint64_t without = ShardBytes(job_, 131072);
  for (const auto reduce : {Synchronous::AUTO, Synchronous::RING, Synchronous::NAIVE}) {
    job_.mutable_synchronous()->set_reduce(reduce);
    EXPECT_TRUE(TrainsInGroups(job_));
    EXPECT_EQ(ShardBytes(job_, 131072) - without, 131072u * 8);  // with momentum
  }
  job_.mutable_synchronous()->set_reduce(Synchronous::SHARDS);
  EXPECT_FALSE(TrainsInGroups(job_));
  EXPECT_EQ(ShardBytes(job_, 131072), without);
  job_.mutable_synchronous()->set_reduce(Synchronous::RING);
  cluster_.mutable_ps(0)->set_memory_limit_mib(1);
  job_.mutable_model()->clear_layer();
  job_.mutable_model()->clear_input_shape();
  job_.mutable_model()->add_input_shape(1024);
  Dense* const dense = job_.mutable_model()->add_layer()->mutable_dense();
  dense->set_no_bias(true);
  dense->set_units(64);  // 16 bytes each with momentum: 1 MiB, and what is beside
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("(parameters, optimizer state, and room for both once more)")));
  dense->set_units(60);
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
}

TEST_F(OnCluster, ThePublicCopyAndItsChangesCount) {
  EXPECT_EQ(FloatsBesideOptimizer(job_.downpour()), 0);
  const uint64_t without = ShardBytes(job_, 131072);
  job_.mutable_downpour()->set_fetch_changes(INT4);
  EXPECT_EQ(FloatsBesideOptimizer(job_.downpour()), 2);
  EXPECT_EQ(ShardBytes(job_, 131072) - without, 131072u * 8);
  job_.mutable_downpour()->mutable_rounds();
  EXPECT_EQ(ShardBytes(job_, 131072) - without, 131072u * 16);
  cluster_.mutable_ps(0)->set_memory_limit_mib(1);
  job_.mutable_model()->clear_layer();
  job_.mutable_model()->clear_input_shape();
  job_.mutable_model()->add_input_shape(1024);
  Dense* const dense = job_.mutable_model()->add_layer()->mutable_dense();
  dense->set_no_bias(true);
  dense->set_units(64);
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("(parameters, optimizer state, sums of rounds, a public copy and "
                                 "its changes)")));
}

TEST_F(OnCluster, DefaultsOfTheOptimizersAreFilledIn) {
  ASSERT_OK_AND_ASSIGN(job_, LoadJob(WriteJob(testing::ValidJob()),
                                     {.overrides = {"downpour.optimizer={ adam_w { rate: 1 } }"}}));
  const AdamW& adam_w = job_.downpour().optimizer().adam_w();
  EXPECT_EQ(adam_w.beta1(), 0.9);
  EXPECT_EQ(adam_w.beta2(), 0.999);
  EXPECT_EQ(adam_w.epsilon(), 1e-8);
  EXPECT_EQ(adam_w.weight_decay(), 0.01);
  ASSERT_OK_AND_ASSIGN(
      job_, LoadJob(WriteJob(testing::ValidJob()),
                    {.overrides = {"downpour.optimizer={ adam_w { rate: 1 beta1: 0 weight_decay: "
                                   "0 } }"}}));
  EXPECT_EQ(job_.downpour().optimizer().adam_w().beta1(), 0.0);
  EXPECT_EQ(job_.downpour().optimizer().adam_w().weight_decay(), 0.0);
  ASSERT_OK_AND_ASSIGN(job_,
                       LoadJob(WriteJob(testing::ValidJob()),
                               {.overrides = {"downpour.optimizer={ rms_prop { rate: 1 } }"}}));
  EXPECT_EQ(job_.downpour().optimizer().rms_prop().alpha(), 0.99);
  EXPECT_FALSE(job_.downpour().optimizer().has_average());
  ASSERT_OK_AND_ASSIGN(
      job_, LoadJob(WriteJob(testing::ValidJob()),
                    {.overrides = {"downpour.optimizer={ sgd { rate: 1 } average { } }"}}));
  EXPECT_EQ(job_.downpour().optimizer().average().share(), 0.9);
  EXPECT_EQ(job_.downpour().optimizer().average().power(), 2.0);
  ASSERT_OK_AND_ASSIGN(
      job_,
      LoadJob(WriteJob(testing::ValidJob()),
              {.overrides = {"downpour.optimizer={ sgd { rate: 1 } average { power: 0 } }"}}));
  EXPECT_EQ(job_.downpour().optimizer().average().power(), 0.0);
}

TEST_F(OnCluster, WhatIsOneInFloat32IsNotBelowOne) {
  for (const auto& [setting, field] :
       {std::pair{"optimizer={ momentum { rate: 1 momentum: 0.99999999999 } }",
                  "optimizer.momentum.momentum"},
        std::pair{"optimizer={ nesterov { rate: 1 momentum: 0.99999999999 } }",
                  "optimizer.nesterov.momentum"},
        std::pair{"local={ mixing: 0.99999999999 }", "local.mixing"}}) {
    EXPECT_THAT(
        LoadJob(WriteJob(testing::ValidJob()), {.overrides = {std::string("downpour.") + setting}}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(std::string("downpour.") + field + ": 1 is outside [0, 1)")));
  }
}

// 131,072 floats beside 2 x 5 + 11 vectors, or 16, int64 sums and 10 bytes a line; one stripe.
TEST_F(OnCluster, VectorsAndSumsMustFitTheMemoryLimit) {
  ASSERT_OK_AND_ASSIGN(job_, LoadJob(WriteJob(testing::ValidSandblasterJob())));
  Sandblaster* const sandblaster = job_.mutable_sandblaster();
  sandblaster->set_history(5);
  EXPECT_EQ(SandblasterVectors(*sandblaster), 21u);
  constexpr uint64_t kBeside = kStripeOverheadBytes + kJobOverheadBytes;
  EXPECT_EQ(ShardBytes(job_, 131072), 131072u * (4 * 22 + 8) + 131072 / 16 * 10 + kBeside);
  sandblaster->set_algorithm(Sandblaster::NONLINEAR_CG);
  EXPECT_EQ(ShardBytes(job_, 131072), 131072u * (4 * 17 + 8) + 131072 / 16 * 10 + kBeside);
  job_.set_stripe_kib(64);
  EXPECT_EQ(ShardBytes(job_, 131072),
            131072u * (4 * 17 + 8) + 131072 / 16 * 10 + kBeside + 7 * kStripeOverheadBytes);
  job_.set_stripe_kib(1024);
  sandblaster->set_algorithm(Sandblaster::LBFGS);

  job_.mutable_model()->clear_layer();
  job_.mutable_model()->clear_input_shape();
  job_.mutable_model()->add_input_shape(1024);
  Dense* dense = job_.mutable_model()->add_layer()->mutable_dense();
  dense->set_no_bias(true);
  dense->set_units(128);
  cluster_.mutable_ps(0)->set_memory_limit_mib(13);
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
  sandblaster->set_history(6);
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("needs 13764096 bytes on ps/0 for 131072 floats of the model "
                                 "(parameters, 23 vectors, exact sums), its limit is 13631488; add "
                                 "ps tasks, keep a shorter history or raise memory_limit_mib")));
}

TEST_F(OnCluster, SandblasterReplicasNeedWorkers) {
  ASSERT_OK_AND_ASSIGN(job_, LoadJob(WriteJob(testing::ValidSandblasterJob())));
  EXPECT_OK(ValidateJobOnCluster(job_, cluster_));
  job_.mutable_sandblaster()->set_workers(2);
  EXPECT_THAT(ValidateJobOnCluster(job_, cluster_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("wants 2 workers, the cluster has 1")));
}

}  // namespace
}  // namespace monsoon
