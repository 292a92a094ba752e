#include "coordinator/job/job_plan.h"

#include "absl/strings/str_cat.h"
#include "common/config/job.h"
#include "common/model/shard_map.h"
#include "common/model/table_map.h"
#include "common/optimizer/optimizer_kinds.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Cluster TestCluster(int shards) {
  Cluster cluster;
  cluster.set_name("c");
  cluster.mutable_coordinator()->set_address("unix:c");
  for (int i = 0; i < shards; ++i) {
    cluster.add_ps()->set_address(absl::StrCat("unix:p", i));
  }
  cluster.add_worker()->set_address("unix:w0");
  cluster.add_worker()->set_address("unix:w1");
  return cluster;
}

// One dense layer 16 x 32 without bias: 512 floats.
Job TestJob() {
  Job job;
  job.set_name("j");
  job.mutable_model()->add_input_shape(16);
  job.mutable_model()->add_layer()->mutable_dense()->set_units(32);
  job.mutable_model()->mutable_layer(0)->mutable_dense()->set_no_bias(true);
  job.mutable_train()->mutable_synthetic()->set_examples(1000);
  job.mutable_train()->mutable_synthetic()->set_classes(32);
  job.set_batch_size(10);
  job.set_seed(42);
  job.set_stripe_kib(1);
  job.mutable_downpour()->mutable_optimizer()->mutable_adagrad()->set_rate(0.1);
  job.mutable_stop()->set_epochs(1);
  return job;
}

// The same 512 floats, of which only programs know what they are.
Job JoinedJob() {
  Job job = TestJob();
  job.clear_model();
  ModelTensor* const tensor = job.mutable_model()->add_tensor();
  tensor->set_name("w");
  tensor->add_shape(16);
  tensor->add_shape(32);
  job.mutable_train()->mutable_joiners()->set_examples(1000);
  return job;
}

// What a shard keeps beside the floats.
uint64_t Beside(uint64_t stripes) { return stripes * kStripeOverheadBytes + kJobOverheadBytes; }

TEST(JobPlanTest, WorksOutSlicesAndData) {
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(TestJob(), TestCluster(2)));
  EXPECT_EQ(plan.parameters, 512u);
  EXPECT_EQ(plan.examples, 1000u);
  EXPECT_EQ(plan.replicas, 2u);
  EXPECT_EQ(plan.max_stripe_bytes, 1024u);
  // Parameters and Adagrad's accumulator: 256 floats twice, in one stripe.
  EXPECT_THAT(plan.shard_bytes, ElementsAre(2048 + Beside(1), 2048 + Beside(1)));
  const CreateShardJobRequest request = plan.CreateRequest("j-7", 1, true);
  EXPECT_EQ(request.job(), "j-7");
  EXPECT_EQ(request.shard(), 1u);
  EXPECT_EQ(request.shards(), 2u);
  EXPECT_EQ(request.seed(), 42u);
  EXPECT_EQ(request.layout_hash(), plan.layout_hash);
  EXPECT_TRUE(request.written_by_client());
  Job sgd = TestJob();
  sgd.mutable_downpour()->mutable_optimizer()->mutable_sgd()->set_rate(0.1);
  sgd.mutable_downpour()->set_workers(1);
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(sgd, TestCluster(1)));
  EXPECT_THAT(plan.shard_bytes, ElementsAre(2048 + Beside(2)));
  EXPECT_EQ(plan.replicas, 1u);
}

TEST(JobPlanTest, RoundsGoToTheShardsAndTakeMemory) {
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(JoinedJob(), TestCluster(2)));
  EXPECT_FALSE(plan.CreateRequest("j-1", 0, false).has_rounds());
  Job job = JoinedJob();
  job.mutable_downpour()->mutable_local()->set_steps(50);
  job.mutable_downpour()->mutable_rounds();  // of all workers
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(job, TestCluster(2)));
  EXPECT_TRUE(plan.CreateRequest("j-1", 0, false).has_rounds());
  // Beside parameters and accumulator an int64 for each of 256 floats.
  EXPECT_THAT(plan.shard_bytes, ElementsAre(4096 + Beside(1), 4096 + Beside(1)));
  job.mutable_downpour()->mutable_rounds()->set_quorum(2);
  job.mutable_downpour()->mutable_rounds()->set_grace_seconds(1.5);
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(job, TestCluster(2)));
  const CreateShardJobRequest request =
      JobPlan::FromStored(plan.ToStored()).CreateRequest("j-1", 1, false);
  EXPECT_EQ(request.rounds().quorum(), 2u);
  EXPECT_EQ(request.rounds().grace_seconds(), 1.5);
}

TEST(JobPlanTest, AnUnsetOuterOptimizerIsTheSameOnAllShards) {
  Job job = TestJob();
  Downpour* const downpour = job.mutable_downpour();
  downpour->clear_optimizer();
  downpour->mutable_local()->set_steps(5);
  downpour->mutable_local()->mutable_inner()->mutable_sgd()->set_rate(0.1);
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(job, TestCluster(2)));  // lists 2 workers
  const JobPlan stored = JobPlan::FromStored(plan.ToStored());
  for (const uint32_t shard : {0u, 1u}) {
    EXPECT_EQ(stored.CreateRequest("j-1", shard, false).optimizer().sgd().rate(), 0.5);
  }
  EXPECT_EQ(plan.job.downpour().optimizer().kind_case(), Optimizer::KIND_NOT_SET)
      << "a job that goes on from this one shares anew";
  Job joined = JoinedJob();
  *joined.mutable_downpour() = *downpour;
  joined.mutable_downpour()->mutable_local()->clear_inner();
  joined.mutable_downpour()->set_programs(4);
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(joined, TestCluster(2)));
  EXPECT_EQ(plan.CreateRequest("j-1", 0, false).optimizer().sgd().rate(), 0.25);
}

// 1000 samples in batches of 10 are 100 steps an epoch.
TEST(JobPlanTest, SchedulesInSharesGetTheirNumbers) {
  Job job = TestJob();
  job.mutable_stop()->set_epochs(3);
  Schedule* const schedule = job.mutable_downpour()->mutable_optimizer()->mutable_schedule();
  schedule->mutable_cosine()->set_share(1.0);
  schedule->set_warm_up_share(0.1);
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(job, TestCluster(2)));
  const Schedule of_shard = plan.CreateRequest("j-1", 0, false).optimizer().schedule();
  EXPECT_EQ(of_shard.cosine().pushes(), 300u);
  EXPECT_EQ(of_shard.warm_up_pushes(), 30u);
  EXPECT_EQ(plan.job.downpour().optimizer().schedule().cosine().pushes(), 300u) << "replicas too";
  // Those of programs compare their settings with the job's as they were given.
  Job joined = JoinedJob();
  *joined.mutable_downpour() = job.downpour();
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(joined, TestCluster(2)));
  EXPECT_EQ(plan.CreateRequest("j-1", 0, false).optimizer().schedule().cosine().pushes(), 100u);
  EXPECT_EQ(plan.job.downpour().optimizer().schedule().cosine().pushes(), 0u);
}

TEST(JobPlanTest, ChangesGoToTheShardsAndTakeMemory) {
  Job job = JoinedJob();
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(job, TestCluster(2)));
  EXPECT_EQ(plan.CreateRequest("j-1", 0, false).fetch_changes(), FLOAT32);
  job.mutable_downpour()->mutable_local()->set_steps(50);
  job.mutable_downpour()->set_fetch_changes(INT4);
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(job, TestCluster(2)));
  EXPECT_EQ(JobPlan::FromStored(plan.ToStored()).CreateRequest("j-1", 1, false).fetch_changes(),
            INT4);
  // Beside parameters and accumulator the copy of 256 floats, and as much for its changes.
  EXPECT_THAT(plan.shard_bytes, ElementsAre(4096 + Beside(1), 4096 + Beside(1)));
}

TEST(JobPlanTest, RowsOfTablesTakeMemory) {
  Job job = JoinedJob();
  Table* const table = job.mutable_model()->add_table();
  table->set_name("words");
  table->set_rows(1000);
  table->set_columns(15);
  ASSERT_OK_AND_ASSIGN(const JobPlan plan, JobPlan::Make(job, TestCluster(2)));
  // On each shard one stripe of 500 rows, with a sum for each.
  constexpr uint64_t kRows = 500 * 16 * 4 + kRowStripeOverheadBytes;
  EXPECT_THAT(plan.shard_bytes, ElementsAre(2048 + kRows + Beside(1), 2048 + kRows + Beside(1)));
  EXPECT_EQ(plan.CreateRequest("j-1", 1, false).model().table(0).rows(), 1000u);
}

TEST(JobPlanTest, SandblasterNeedsVectorsAndSums) {
  Job job = TestJob();
  job.clear_downpour();
  job.clear_stop();
  job.mutable_sandblaster()->set_history(3);
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(job, TestCluster(2)));
  EXPECT_EQ(plan.replicas, 2u);
  EXPECT_EQ(plan.job.sandblaster().chunk_examples(), 10u);
  // 256 floats: parameters and 17 vectors, an int64 for each, 10 bytes for each of 16 lines.
  EXPECT_THAT(plan.shard_bytes,
              ElementsAre(256 * (4 * 18 + 8) + 16 * 10 + Beside(1), 256 * 80 + 160 + Beside(1)));
  // The shards take no job without a rule; this one needs no memory.
  EXPECT_EQ(OptimizerStateSlots(plan.CreateRequest("j-1", 0, false).optimizer()), 0);
  EXPECT_TRUE(plan.CreateRequest("j-1", 0, false).optimizer().has_sgd());
  // A chain keeps Adagrad's accumulator too.
  *job.mutable_downpour() = TestJob().downpour();
  *job.mutable_stop() = TestJob().stop();
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(job, TestCluster(1)));
  EXPECT_THAT(plan.shard_bytes, ElementsAre(512 * (4 * 19 + 8) + 32 * 10 + Beside(2)));
  EXPECT_TRUE(plan.CreateRequest("j-1", 0, false).optimizer().has_adagrad());
  job.mutable_sandblaster()->set_sample_examples(1001);
  EXPECT_THAT(JobPlan::Make(job, TestCluster(1)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("larger than the training")));
}

TEST(JobPlanTest, ErrorsNameTheField) {
  Job job = TestJob();
  job.clear_batch_size();
  EXPECT_THAT(JobPlan::Make(job, TestCluster(1)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("batch_size")));
  EXPECT_THAT(std::string(JobPlan::Make(TestJob(), TestCluster(33)).status().message()),
              HasSubstr("33"));  // 512 floats are 32 lines of 64 bytes.
}

// It opens none: they are on the workers' disks.
TEST(JobPlanTest, DataInFilesAreAwaited) {
  Job job = TestJob();
  job.mutable_test()->mutable_idx()->set_images("/nowhere/images.gz");
  job.mutable_test()->mutable_idx()->set_labels("/nowhere/labels.gz");
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(job, TestCluster(1)));
  EXPECT_TRUE(plan.awaits_data);
  EXPECT_TRUE(JobPlan::FromStored(plan.ToStored()).awaits_data);
  EXPECT_EQ(plan.examples, 0u);
  EXPECT_THAT(plan.TakeData(0, TestCluster(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is empty")));
  EXPECT_THAT(plan.TakeData(1, TestCluster(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("training data of 1")));
  EXPECT_TRUE(plan.awaits_data);
  ASSERT_OK(plan.TakeData(5000, TestCluster(1)));
  EXPECT_FALSE(plan.awaits_data);
  EXPECT_EQ(plan.examples, 5000u);
}

TEST(JobPlanTest, OfAJoinedJob) {
  Cluster cluster = TestCluster(2);
  cluster.clear_worker();
  ASSERT_OK_AND_ASSIGN(JobPlan plan, JobPlan::Make(JoinedJob(), cluster));
  EXPECT_EQ(plan.parameters, 512u);
  EXPECT_EQ(plan.examples, 1000u);
  Job job = JoinedJob();
  job.mutable_train()->mutable_joiners()->Clear();
  job.mutable_train()->mutable_joiners()->set_unnumbered(true);
  job.mutable_stop()->Clear();
  ASSERT_OK_AND_ASSIGN(plan, JobPlan::Make(job, cluster));
  EXPECT_EQ(plan.examples, uint64_t{1} << 40);
}

}  // namespace
}  // namespace monsoon
