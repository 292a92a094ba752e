#include "coordinator/chaos/cluster_view.h"

#include "common/config/chaos.h"
#include "common/testing/status_matchers.h"
#include "coordinator/chaos/plan_check.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void AddTask(InfoReply* info, const std::string& name, const std::string& address,
             const std::string& state = "UP") {
  TaskStatus* const task = info->add_task();
  task->set_task(name);
  task->set_address(address);
  task->set_state(state);
  task->set_pid(static_cast<uint32_t>(10 + info->task_size()));
}

InfoReply Info() {
  InfoReply info;
  info.set_pid(10);
  AddTask(&info, "ps/0", "127.0.0.1:2222");
  AddTask(&info, "ps/1", "unix:/tmp/ps");
  AddTask(&info, "worker/0", "localhost:2223");
  AddTask(&info, "worker/1", "10.0.0.7:2223");
  AddTask(&info, "worker/2", "a guest on here");
  AddTask(&info, "worker/3", "a guest on attic");
  return info;
}

JobDescription Job(JobState state) {
  JobDescription job;
  job.mutable_summary()->set_job("j-1");
  job.mutable_summary()->set_state(state);
  job.mutable_durability()->set_promise("exactly_once");
  job.add_shard()->set_task(0);
  job.mutable_shard(0)->set_pid(11);
  job.add_shard()->set_task(1);
  job.mutable_shard(1)->set_pid(12);
  return job;
}

ClusterView View(const InfoReply& info = Info(), const JobDescription& job = Job(RUNNING)) {
  return MakeClusterView(absl::Seconds(3), "127.0.0.1:2221", "here", info, job);
}

TEST(ClusterView, KnowsWhoCanBeOfThisMachine) {
  const ClusterView view = View();
  EXPECT_EQ(view.asked_at, absl::Seconds(3));
  for (const char* name : {"coordinator/0", "ps/0", "ps/1", "worker/0", "worker/2"}) {
    ASSERT_NE(view.Find(name), nullptr) << name;
    EXPECT_EQ(view.Find(name)->elsewhere, "") << name;
  }
  EXPECT_EQ(view.Find("coordinator/0")->pid, 10u);
  EXPECT_TRUE(view.Find("coordinator/0")->up());
  EXPECT_EQ(view.Find("worker/1")->elsewhere,
            "its address 10.0.0.7:2223 is not one of this machine alone (loopback or unix)");
  EXPECT_EQ(view.Find("worker/3")->elsewhere, "it is a guest on attic, and this is here");
  EXPECT_TRUE(view.Find("worker/2")->guest);
  EXPECT_FALSE(view.Find("worker/1")->guest);
  EXPECT_EQ(view.Find("worker/4"), nullptr);
  InfoReply info;
  AddTask(&info, "worker/0", "a guest");
  EXPECT_EQ(View(info).Find("worker/0")->elsewhere, "it is a guest, and this is here");
}

TEST(ClusterView, AJobIsRestoringUntilItShowsASliceOfEachLivingShard) {
  EXPECT_FALSE(View().job_is_restoring());
  InfoReply info = Info();
  info.mutable_task(1)->set_pid(99);
  EXPECT_TRUE(View(info).job_is_restoring());
  EXPECT_TRUE(View(info, Job(WARMSTART)).job_is_restoring());
  EXPECT_TRUE(View(info, Job(FINISHING)).job_is_restoring());
  // Nothing is there yet, or any more.
  EXPECT_FALSE(View(info, Job(PENDING)).job_is_restoring());
  EXPECT_FALSE(View(info, Job(SUCCEEDED)).job_is_restoring());
  // It is dead, and not at restoring anything.
  info.mutable_task(1)->set_state("LOST");
  EXPECT_FALSE(View(info).job_is_restoring());
  // A coordinator that was just started has not asked it.
  info.mutable_task(1)->set_state("NEVER SEEN");
  EXPECT_TRUE(View(info).job_is_restoring());
  JobDescription job = Job(RUNNING);
  job.mutable_shard()->RemoveLast();
  EXPECT_TRUE(View(Info(), job).job_is_restoring());
}

TEST(ClusterView, TellsWhetherTheJobHasEnded) {
  for (const JobState state : {SUCCEEDED, FAILED, CANCELLED}) {
    EXPECT_TRUE(View(Info(), Job(state)).job_has_ended());
  }
  for (const JobState state : {PENDING, INITIALIZING, WARMSTART, RUNNING, FINISHING}) {
    EXPECT_FALSE(View(Info(), Job(state)).job_has_ended());
  }
}

absl::Status Check(const std::string& text, const ClusterView& view,
                   std::vector<std::string>* notes) {
  const absl::StatusOr<ChaosPlan> plan = LoadChaosPlan("plan", nullptr, &text);
  return plan.ok() ? CheckPlanOnCluster(*plan, view, notes) : plan.status();
}

std::string WhatIsWrong(const std::string& text, const ClusterView& view = View()) {
  std::vector<std::string> notes;
  const absl::Status status = Check(text, view, &notes);
  return std::string(status.message());
}

TEST(CheckPlanOnCluster, NamesTheTaskThatCannotBeHit) {
  EXPECT_EQ(WhatIsWrong("fault { task: 'ps/0' kind: KILL } fault { task: 'ps/2' kind: KILL }"),
            "fault[1].task: \"ps/2\": the cluster has no such task; it has coordinator/0, ps/0, "
            "ps/1, worker/0, worker/1, worker/2, worker/3");
  EXPECT_EQ(WhatIsWrong("fault { task: ['ps/0', 'worker/1'] kind: KILL }"),
            "fault[0].task: \"worker/1\": worker/1 is no task of this machine: its address "
            "10.0.0.7:2223 is not one of this machine alone (loopback or unix)");
  EXPECT_EQ(WhatIsWrong("fault { task: 'worker/3' kind: KILL }"),
            "fault[0].task: \"worker/3\": worker/3 is no task of this machine: it is a guest on "
            "attic, and this is here");
  InfoReply away;
  AddTask(&away, "worker/0", "10.0.0.7:1");
  EXPECT_THAT(WhatIsWrong("fault { task: 'worker/*' kind: KILL }", View(away)),
              HasSubstr("\"worker/*\": worker/0 is no task of this machine"));
}

TEST(CheckPlanOnCluster, AStarLeavesOthersOut) {
  std::vector<std::string> notes;
  ASSERT_OK(Check("fault { task: 'worker/*' kind: KILL } fault { task: '*' kind: KILL }", View(),
                  &notes));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("worker/1 is left alone: its address 10.0.0.7:2223"),
                                 HasSubstr("worker/3 is left alone: it is a guest on attic")));
}

TEST(CheckPlanOnCluster, TheJobMustRun) {
  EXPECT_THAT(WhatIsWrong("fault { task: 'ps/0' kind: KILL }", View(Info(), Job(SUCCEEDED))),
              AllOf(HasSubstr("j-1 has ended (SUCCEEDED)"), HasSubstr("submit a job")));
  EXPECT_EQ(WhatIsWrong("fault { task: 'ps/0' kind: KILL }", View(Info(), Job(PENDING))), "");
}

TEST(CheckPlanOnCluster, AJobInMemoryHasNoGenerations) {
  JobDescription job = Job(RUNNING);
  job.mutable_durability()->set_promise("memory_only");
  const std::string waits =
      "fault { task: 'ps/0' kind: STOP lasts_s { min: 1 } await_checkpoint: true }";
  EXPECT_EQ(WhatIsWrong(waits, View(Info(), job)),
            "fault[0].await_checkpoint: job j-1 is kept in memory only, so there will be no "
            "generation");
  EXPECT_EQ(WhatIsWrong(waits), "");
  // Shards that have not answered yet may keep it.
  job.mutable_summary()->set_state(PENDING);
  EXPECT_EQ(WhatIsWrong(waits, View(Info(), job)), "");
}

TEST(TasksOfPlan, AreThoseThatItMeansHere) {
  const std::string text =
      "fault { task: 'worker/*' kind: KILL } fault { task: ['ps/1', 'worker/0'] kind: KILL }";
  std::vector<std::string> names;
  for (const TaskView& task : TasksOfPlan(*LoadChaosPlan("plan", nullptr, &text), View())) {
    names.push_back(task.name);
  }
  EXPECT_THAT(names, ElementsAre("ps/1", "worker/0", "worker/2"));
}

}  // namespace
}  // namespace monsoon
