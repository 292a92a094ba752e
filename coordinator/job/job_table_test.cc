#include "coordinator/job/job_table.h"

#include "common/testing/status_matchers.h"
#include "coordinator/state/replayed_state.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::Duration kNow = absl::Seconds(1);

JobPlan Plan(const std::string& name, std::vector<uint64_t> mib) {
  JobPlan plan;
  plan.job.set_name(name);
  for (const uint64_t shard : mib) {
    plan.shard_bytes.push_back(shard << 20);
  }
  return plan;
}

TEST(JobTableTest, IdsCountAllJobsAndPassOverTakenOnes) {
  testing::ReplayedState state;
  JobTable table(state.writer());
  EXPECT_THAT(table.Find("latest").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no jobs yet")));
  EXPECT_EQ(table.Add(Plan("lenet", {1}), {}, {})->id(), "lenet-1");
  EXPECT_EQ(table.Add(Plan("mlp", {1}), {}, {})->id(), "mlp-2");
  EXPECT_EQ(table.Add(Plan("mlp", {1}), {}, {"mlp-3", "lenet-4"})->id(), "mlp-4");
  EXPECT_EQ((*table.Find("latest"))->id(), "mlp-4");
  (*table.Find("latest"))->End(CANCELLED, "", kNow);
  (*table.Find("latest"))->ChangeStage(JOB_DELETING, kNow);
  table.Remove("mlp-4");
  EXPECT_EQ((*table.Find("latest"))->id(), "mlp-2");
  EXPECT_THAT(
      table.Find("mlp-4").status(),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("\"mlp-4\""), HasSubstr("mlp-2"))));
  EXPECT_EQ(table.Add(Plan("mlp", {1}), {}, {})->id(), "mlp-5");  // Never used again.
}

TEST(JobTableTest, OldestThatCanRunComesFirst) {
  testing::ReplayedState state;
  JobTable table(state.writer());
  JobRecord* const init = table.Add(Plan("a", {1}), {.init = true}, {});
  JobRecord* const second = table.Add(Plan("b", {1}), {}, {});
  EXPECT_EQ(table.NextToRun(), second);
  init->Make([](StateUpdate* update) { update->mutable_client_started(); });
  EXPECT_EQ(table.NextToRun(), init);
  init->End(CANCELLED, "", kNow);
  second->End(CANCELLED, "", kNow);
  EXPECT_EQ(table.NextToRun(), nullptr);
}

TEST(JobTableTest, TheListOfJobsHasABudget) {
  Cluster cluster;
  cluster.add_ps()->set_memory_limit_mib(1000);
  testing::ReplayedState state;
  JobTable table(state.writer());
  JobPlan large = Plan("a", {1});
  for (uint64_t bytes = 0; bytes < kMostJobsBytes / 2; bytes += 1 << 20) {
    large.job.mutable_train()->add_class_name(std::string(1 << 20, 'x'));
  }
  EXPECT_OK(table.Admit(large, cluster, ""));
  JobRecord* const first = table.Add(large, {}, {});
  first->End(CANCELLED, "", kNow);  // stays in the list
  EXPECT_OK(table.Admit(Plan("b", {1}), cluster, ""));
  EXPECT_THAT(table.Admit(large, cluster, ""),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("delete ended jobs")));
}

JobPlan Large(int mib) {
  JobPlan plan = Plan("a", {1});
  for (int i = 0; i < mib; ++i) {
    plan.job.mutable_train()->add_class_name(std::string((1 << 20) - 32, 'x'));
  }
  return plan;
}

TEST(JobTableTest, TheListIsSharedByWhoSubmits) {
  Cluster cluster;
  cluster.add_ps()->set_memory_limit_mib(1000);
  testing::ReplayedState state;
  JobTable table(state.writer());
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(table.Admit(Large(13), cluster, "operator/ada"));
    table.Add(Large(13), {.by = "operator/ada"}, {});
  }
  EXPECT_THAT(table.Admit(Large(13), cluster, "operator/ada"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("operator/ada has"), HasSubstr("and may have 33554432"),
                             HasSubstr("delete ended ones"))));
  EXPECT_OK(table.Admit(Large(13), cluster, "operator/bob"));
  EXPECT_OK(table.Admit(Large(13), cluster, ""));  // this machine's user
  // The last quarter is for who has little.
  table.Add(Large(23), {}, {});
  EXPECT_THAT(table.Admit(Large(5), cluster, "operator/bob"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("operator/bob has 0 bytes of settings in the list of jobs, and "
                                 "may have 4194304")));
  EXPECT_OK(table.Admit(Large(4), cluster, "operator/bob"));
  EXPECT_OK(table.Admit(Large(13), cluster, ""));
}

TEST(JobTableTest, AMemberHasHalfOfTheListAtMost) {
  Cluster cluster;
  cluster.add_ps()->set_memory_limit_mib(1000);
  testing::ReplayedState state;
  JobTable table(state.writer());
  for (size_t i = 0; i < kMostJobs / 2; ++i) {
    table.Add(Plan("a", {0}), {.by = "worker/7"}, {});
  }
  EXPECT_THAT(table.Admit(Plan("a", {0}), cluster, "worker/7"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("worker/7 has 5000 jobs in the list, and may have 5000")));
  EXPECT_OK(table.Admit(Plan("a", {0}), cluster, "worker/8"));
  const std::string oldest = table.jobs().front()->id();
  table.Lookup(oldest)->End(CANCELLED, "", kNow);
  EXPECT_FALSE(table.Admit(Plan("a", {0}), cluster, "worker/7").ok());  // it stays in the list
  table.Lookup(oldest)->ChangeStage(JOB_DELETING, kNow);
  table.Remove(oldest);
  EXPECT_OK(table.Admit(Plan("a", {0}), cluster, "worker/7"));
  // A coordinator that is started anew knows whose they are.
  table.Add(Plan("a", {0}), {.by = "worker/7"}, {});
  const JobTable again(state.writer());
  EXPECT_FALSE(again.Admit(Plan("a", {0}), cluster, "worker/7").ok());
  EXPECT_OK(again.Admit(Plan("a", {0}), cluster, ""));
}

TEST(JobTableTest, TheLastOfTheListIsForWhoHasLittle) {
  Cluster cluster;
  cluster.add_ps()->set_memory_limit_mib(1000);
  testing::ReplayedState state;
  JobTable table(state.writer());
  for (size_t i = 0; i < kMostJobs * 3 / 4; ++i) {
    table.Add(Plan("a", {0}), {.by = i % 2 == 0 ? "worker/7" : ""}, {});
  }
  EXPECT_THAT(table.Admit(Plan("a", {0}), cluster, "worker/7"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("may have 100 beside 0")));
  for (size_t i = 0; i < kLeastJobs; ++i) {
    EXPECT_OK(table.Admit(Plan("a", {0}), cluster, "worker/8"));
    table.Add(Plan("a", {0}), {.by = "worker/8"}, {});
  }
  EXPECT_FALSE(table.Admit(Plan("a", {0}), cluster, "worker/8").ok());
  EXPECT_OK(table.Admit(Plan("a", {0}), cluster, ""));
}

TEST(JobTableTest, AdmissionAddsUpPerShard) {
  Cluster cluster;
  cluster.add_ps()->set_memory_limit_mib(10);
  cluster.add_ps()->set_memory_limit_mib(100);
  testing::ReplayedState state;
  JobTable table(state.writer());
  JobRecord* const first = table.Add(Plan("a", {6, 6}), {}, {});
  EXPECT_OK(table.Admit(Plan("b", {4, 4}), cluster, ""));
  EXPECT_THAT(table.Admit(Plan("b", {5, 5}), cluster, ""),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("ps/0: the job needs 5.0 MiB"),
                             HasSubstr("a-1 6.0 MiB, together 11.0 MiB of 10.0 MiB"),
                             Not(HasSubstr("ps/1")))));
  // A shard in a small container takes less than the cluster file says.
  EXPECT_OK(table.Admit(Plan("b", {4, 4}), cluster, "", {0, uint64_t{10} << 20}));
  EXPECT_THAT(
      table.Admit(Plan("b", {4, 4}), cluster, "", {0, uint64_t{9} << 20}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("ps/1: the job needs 4.0 MiB for parameters, optimizer state and vectors, "
                         "a-1 6.0 MiB, together 10.0 MiB of 9.0 MiB, which is what its machine or "
                         "container leaves for jobs")));
  // An ended job holds memory as long as it has slices.
  JobRecord* const never_made = table.Add(Plan("c", {6, 6}), {}, {});
  never_made->End(CANCELLED, "", kNow);
  first->End(CANCELLED, "", kNow);
  EXPECT_OK(table.Admit(Plan("b", {5, 5}), cluster, ""));
  JobRecord* const made = table.Add(Plan("d", {6, 6}), {}, {});
  made->ChangeStage(JOB_CREATING, kNow);
  made->End(CANCELLED, "", kNow);
  EXPECT_FALSE(table.Admit(Plan("b", {5, 5}), cluster, "").ok());
  made->Make([](StateUpdate* update) { update->mutable_slices_lost(); });
  EXPECT_OK(table.Admit(Plan("b", {5, 5}), cluster, ""));
}

}  // namespace
}  // namespace monsoon
