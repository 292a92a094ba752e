#include "coordinator/compare/compare_plan.h"

#include <cstdlib>
#include <fstream>

#include "common/testing/status_matchers.h"
#include "coordinator/compare/rates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kJob[] = R"pb(
  model {
    name: "tiny"
    input_shape: 3
    layer {
      name: "a"
      dense { units: 2 }
    }
  }
  train { synthetic { examples: 64 classes: 2 } }
  seed: 7
  batch_size: 8
  downpour { optimizer { sgd { rate: 0.1 } } }
  stop { epochs: 2 })pb";
constexpr char kTest[] = "test { synthetic { examples: 64 classes: 2 seed: 1 } }";

class ComparePlanTest : public ::testing::Test {
 protected:
  ComparePlanTest() {
    cluster_.add_ps();
    cluster_.add_worker();
    cluster_.add_worker();
    flags_.modes = "downpour";
    Write(absl::StrCat(kJob, kTest));
  }

  void Write(const std::string& text) {
    path_ = ::testing::TempDir() + "/tiny.textproto";
    std::ofstream(path_) << text;
  }
  absl::StatusOr<ComparePlan> Plan() {
    return MakeComparePlan(flags_, path_, cluster_, /*warnings=*/nullptr);
  }
  ComparePlan Good() {
    absl::StatusOr<ComparePlan> plan = Plan();
    EXPECT_OK(plan.status());
    return plan.ok() ? *std::move(plan) : ComparePlan();
  }
  std::string Refusal() { return std::string(Plan().status().message()); }

  CompareFlags flags_;
  Cluster cluster_;
  std::string path_;
};

TEST_F(ComparePlanTest, SeedsBeginWithTheJobsOwn) {
  flags_.modes = "single,local:4";
  flags_.set = {"name=\"mine\""};
  const ComparePlan plan = Good();
  EXPECT_EQ(plan.job.name(), "mine");
  EXPECT_THAT(plan.seeds, ElementsAre(7, 8, 9));
  ASSERT_EQ(plan.modes.size(), 2);
  EXPECT_EQ(plan.modes[0].job.downpour().workers(), 1);
  EXPECT_EQ(plan.modes[1].job.downpour().local().steps(), 4);
  EXPECT_EQ(plan.runs(), 6);
}

TEST_F(ComparePlanTest, EachRateHasAShortRun) {
  flags_.modes = "downpour,diloco:4,sandblaster";
  flags_.rates = "0.2,0.02";
  flags_.grid_epochs = 0.5;
  const ComparePlan plan = Good();
  ASSERT_EQ(plan.modes[0].grid.size(), 2);
  EXPECT_THAT(plan.modes[0].rates, ElementsAre(0.2, 0.02));
  EXPECT_EQ(RateOf(plan.modes[0].grid[1]), 0.02);
  EXPECT_EQ(plan.modes[0].grid[1].stop().epochs(), 0.5);
  EXPECT_EQ(RateOf(plan.modes[0].job), 0.1);
  EXPECT_EQ(RateOf(plan.modes[1].grid[0]), 0.2);
  EXPECT_THAT(plan.modes[2].grid, IsEmpty());
  EXPECT_THAT(plan.modes[2].notes,
              ElementsAre(HasSubstr("ends after 2"), HasSubstr("--rates mean nothing in batch")));
  EXPECT_EQ(plan.runs(), 2 + 2 + 9);
}

TEST_F(ComparePlanTest, WhoTakesNoPartIsNotKilled) {
  flags_.modes = "single,downpour";
  flags_.kill = "worker/1@0.3";
  flags_.seeds = 1;
  const ComparePlan plan = Good();
  EXPECT_EQ(plan.death->task, "worker/1");
  EXPECT_EQ(plan.death->share, 0.3);
  EXPECT_FALSE(plan.modes[0].dies);
  EXPECT_THAT(plan.modes[0].notes, ElementsAre("worker/1 takes no part, and is not killed"));
  EXPECT_TRUE(plan.modes[1].dies);
  EXPECT_EQ(plan.runs(), 3);
  flags_.kill = "ps/0@0.3";
  EXPECT_TRUE(Good().modes[0].dies);
}

TEST_F(ComparePlanTest, AllThatIsWrongIsToldAtOnce) {
  flags_.modes = "local:4,sandblaster,nonsense";
  flags_.set = {"stop={seconds: 3}", "downpour.optimizer={sgd{rate:0.1} average{}}"};
  flags_.rates = "0.1,0,x";
  flags_.seeds = 0;
  flags_.to = 88;
  flags_.kill = "worker/2@0.5";
  flags_.grid_epochs = -1;
  EXPECT_EQ(Refusal(),
            "--seeds: 0 is outside 1 .. 100\n"
            "--grid_epochs: -1 is no number above 0\n"
            "--modes: there is no mode \"nonsense\"; there are single, downpour, ssp, drop, "
            "damped, local, "
            "diloco, synchronous, sandblaster\n"
            "--rates: \"0\" is no number above 0; as in --rates=0.01,0.03\n"
            "--rates: \"x\" is no number above 0; as in --rates=0.01,0.03\n"
            "--kill: \"worker/2\": the cluster file has 2 workers, 1 parameter servers and "
            "coordinator/0, counted from 0\n"
            "--to: 88 is outside (0, 1]; write --to=0.88");
  flags_.modes = "local:4,sandblaster";
  const std::string modes = Refusal();
  EXPECT_THAT(modes, HasSubstr("\nlocal:4: downpour.optimizer.average is the shards' affair"));
  EXPECT_THAT(modes, HasSubstr("\nsandblaster: a batch job ends by its iterations"));
}

TEST_F(ComparePlanTest, AnAccuracyNeedsATestSet) {
  flags_.to = 0.9;
  EXPECT_OK(Plan().status());
  Write(kJob);
  EXPECT_EQ(Refusal(),
            "--to: the job has no test set to measure an accuracy on; add test { ... } to the job "
            "file, or leave --to out");
}

TEST_F(ComparePlanTest, GarbageIsRefused) {
  for (const char* const kill :
       {"worker/0", "worker/0@", "worker/0@1", "worker/0@0", "worker/0@nan", "@0.5", "worker/*@0.5",
        "ps/1@0.5", "coordinator/1@0.5", "worker/99999999999@0.5", "x/0@0.5"}) {
    flags_.kill = kill;
    EXPECT_THAT(Refusal(), HasSubstr("--kill: ")) << kill;
  }
  flags_.kill.clear();
  flags_.rates = "0.1,0.1";
  EXPECT_THAT(Refusal(), HasSubstr("0.1 is there twice"));
  flags_.rates = "0.1";
  flags_.to = -0.1;
  EXPECT_THAT(Refusal(), HasSubstr("--to: -0.1 is outside (0, 1]"));
  path_ = "/nowhere.textproto";
  EXPECT_THAT(Refusal(), HasSubstr("/nowhere.textproto"));
}

TEST_F(ComparePlanTest, AJobThatTheClusterCannotRunIsRefused) {
  flags_.set = {"downpour.workers=3"};
  flags_.modes = "single,downpour";
  EXPECT_THAT(Refusal(), HasSubstr("downpour: job \"tiny\" wants 3 workers, the cluster has 2"));
}

TEST_F(ComparePlanTest, NamesAreThoseOfJobs) {
  const ChosenMode mode = ParseModes("damped:0.125")->at(0);
  EXPECT_EQ(ComparedName("tiny", mode, "s7-killed"), "tiny-compare-damped-0_125-s7-killed");
  const std::string cut = ComparedName(std::string(64, 'x'), mode, "s7");
  EXPECT_EQ(cut.size(), 64);
  EXPECT_THAT(cut, HasSubstr("xx-compare-damped-0_125-s7"));
}

}  // namespace
}  // namespace monsoon
