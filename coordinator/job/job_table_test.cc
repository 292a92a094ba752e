#include "coordinator/job/job_table.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

JobPlan Plan(const std::string& name, std::vector<uint64_t> mib) {
  JobPlan plan;
  plan.job.set_name(name);
  for (const uint64_t shard : mib) {
    plan.shard_bytes.push_back(shard << 20);
  }
  return plan;
}

TEST(JobTableTest, IdsCountAllJobsAndPassOverTakenOnes) {
  JobTable table;
  EXPECT_THAT(table.Find("latest").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no jobs yet")));
  EXPECT_EQ(table.Add(Plan("lenet", {1}), {})->id, "lenet-1");
  EXPECT_EQ(table.Add(Plan("mlp", {1}), {})->id, "mlp-2");
  EXPECT_EQ(table.Add(Plan("mlp", {1}), {"mlp-3", "lenet-4"})->id, "mlp-4");
  EXPECT_EQ((*table.Find("latest"))->id, "mlp-4");
  table.Remove("mlp-4");
  EXPECT_EQ((*table.Find("latest"))->id, "mlp-2");
  EXPECT_THAT(
      table.Find("mlp-4").status(),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("\"mlp-4\""), HasSubstr("mlp-2"))));
  EXPECT_EQ(table.Add(Plan("mlp", {1}), {})->id, "mlp-5");  // Never used again.
}

TEST(JobTableTest, OldestThatCanRunComesFirst) {
  JobTable table;
  JobRecord* const init = table.Add(Plan("a", {1}), {});
  init->init = true;
  JobRecord* const second = table.Add(Plan("b", {1}), {});
  EXPECT_EQ(table.NextToRun(), second);
  init->client_started = true;
  EXPECT_EQ(table.NextToRun(), init);
  init->stage = JobRecord::Stage::kEnded;
  second->stage = JobRecord::Stage::kEnded;
  EXPECT_EQ(table.NextToRun(), nullptr);
}

TEST(JobTableTest, AdmissionAddsUpPerShard) {
  Cluster cluster;
  cluster.add_ps()->set_memory_limit_mib(10);
  cluster.add_ps()->set_memory_limit_mib(100);
  JobTable table;
  JobRecord* const first = table.Add(Plan("a", {6, 6}), {});
  EXPECT_OK(table.Admit(Plan("b", {4, 4}), cluster));
  EXPECT_THAT(table.Admit(Plan("b", {5, 5}), cluster),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("ps/0: the job needs 5.0 MiB"),
                             HasSubstr("a-1 6.0 MiB, together 11.0 MiB of 10.0 MiB"),
                             Not(HasSubstr("ps/1")))));
  // An ended job holds memory as long as it has slices.
  first->stage = JobRecord::Stage::kEnded;
  EXPECT_OK(table.Admit(Plan("b", {5, 5}), cluster));
  first->slices_begun = true;
  EXPECT_FALSE(table.Admit(Plan("b", {5, 5}), cluster).ok());
  first->slices_lost = true;
  EXPECT_OK(table.Admit(Plan("b", {5, 5}), cluster));
}

}  // namespace
}  // namespace monsoon
