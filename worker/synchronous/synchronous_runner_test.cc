// Members of a group in one process: real networks, frames through shared memory, a thread each.
#include "worker/synchronous/synchronous_runner.h"

#include <latch>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"
#include "worker/baseline/trainer.h"
#include "worker/synchronous/runner_fixture.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

// One process that sums `k` batches before each step.
std::vector<float> TrainAlone(Job job, uint32_t k, uint64_t batches) {
  job.clear_synchronous();
  job.mutable_downpour()->set_n_fetch(k);
  job.mutable_downpour()->set_n_push(k);
  job.mutable_stop()->set_steps(batches);
  absl::StatusOr<std::unique_ptr<Trainer>> trainer = Trainer::Create(job, TrainerOptions{});
  EXPECT_OK(trainer);
  EXPECT_OK((*trainer)->Run([](const TrainingReport&) {}));
  const std::span<const float> all = (*trainer)->parameters();
  return {all.begin(), all.end()};
}

class SameBitsTest : public SynchronousRunnerTest,
                     public ::testing::WithParamInterface<std::string> {};

TEST_P(SameBitsTest, AsOneProcessThatSumsTheBatches) {
  for (const uint32_t k : {2u, 3u}) {
    for (const std::string optimizer :
         {"sgd { rate: 0.1 }", "momentum { rate: 0.05 momentum: 0.9 }"}) {
      // Of three members the mean is not exact, and neither is the rate.
      if (k == 3 && optimizer[0] != 's') {
        continue;
      }
      members_.clear();
      Make(k, absl::StrCat("reduce: ", GetParam(), " sum_order: BY_RANK scale_rate: LINEAR"),
           optimizer);
      std::vector<uint32_t> workers;
      for (uint32_t worker = 0; worker < k; ++worker) {
        workers.push_back(worker);
      }
      // Two epochs of 12 batches, the last one short, and a step more.
      Run(Order(workers, 24 + k));
      const std::vector<float> alone = TrainAlone(job_, k, 24 + k);
      for (const uint32_t worker : workers) {
        EXPECT_EQ(ParametersOf(worker), alone) << optimizer << " worker/" << worker;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Reduce, SameBitsTest,
                         ::testing::Values("NAIVE", "TREE", "RING", "DIRECT", "EXCHANGE", "AUTO"));

TEST_F(SynchronousRunnerTest, PartsThatGoWhileTheRestIsComputedGiveTheSameBits) {
  // 2.8 MiB in three parts, of which the first is final two layers before the end.
  Make(2, "reduce: RING sum_order: BY_RANK scale_rate: LINEAR fuse_mib: 1", "sgd { rate: 0.1 }",
       R"(layer { name: "w1" dense { units: 600 } } layer { name: "t1" tanh {} }
          layer { name: "w2" dense { units: 600 } } layer { name: "t2" tanh {} }
          layer { name: "w3" dense { units: 600 } } layer { name: "t3" tanh {} })");
  Run(Order({0, 1}, 26));
  const std::vector<float> alone = TrainAlone(job_, 2, 26);
  ASSERT_GT(alone.size() * sizeof(float), 5 << 19);
  EXPECT_EQ(ParametersOf(0), alone);
  EXPECT_EQ(ParametersOf(1), alone);
}

TEST_F(SynchronousRunnerTest, AMeanOfGradientsIsNearASumOfHalfTheRate) {
  Make(2, "reduce: RING", "adagrad { rate: 0.1 }");
  Run(Order({0, 1}, 24));
  EXPECT_EQ(ParametersOf(0), ParametersOf(1));
  // Alone, with a batch of two.
  Job job = job_;
  job.set_batch_size(16);
  job.mutable_model()->mutable_layer()->DeleteSubrange(2, 1);  // its masks are of single batches
  members_.clear();
  job_.mutable_model()->mutable_layer()->DeleteSubrange(2, 1);
  for (const uint32_t worker : {0, 1}) {
    members_.push_back(std::make_unique<TestMember>(worker, job_, store_.get()));
  }
  Run(Order({0, 1}, 10));
  const std::vector<float> alone = TrainAlone(job, 1, 5);
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_NEAR(ParametersOf(0)[i], alone[i], 1e-5) << i;
  }
}

TEST_F(SynchronousRunnerTest, AllHaveOneDigestAtEachStep) {
  Make(3, "reduce: AUTO", "adam_w { rate: 0.01 beta1: 0.9 beta2: 0.99 epsilon: 1e-8 }");
  Mutex mutex;
  std::map<uint64_t, std::set<uint64_t>> digests;
  Run(Order({0, 1, 2}, 90), [&](TestMember* member) {
    MutexLock lock(&mutex);
    digests[member->state->at().updates()].insert(member->state->Digest());
  });
  EXPECT_EQ(digests.size(), 31u);  // with the beginning
  for (const auto& [update, all] : digests) {
    EXPECT_EQ(all.size(), 1u) << update;
  }
}

TEST_F(SynchronousRunnerTest, AJoinerGetsTheState) {
  Make(3, "reduce: TREE", "momentum { rate: 0.05 momentum: 0.9 }");
  Run(Order({0, 1}, 8));
  const std::vector<float> before = ParametersOf(0);
  NextWorkReply::Synchronize order = Order({0, 1, 2}, 8);
  EXPECT_TRUE(order.share());
  Run(order);
  EXPECT_EQ(ParametersOf(2), before);
  EXPECT_EQ(members_[2]->state->Digest(), members_[0]->state->Digest());
  EXPECT_EQ(members_[2]->state->at().updates(), 4u);
}

TEST_F(SynchronousRunnerTest, AnotherStateIsFoundAndReplaced) {
  Make(2, "reduce: NAIVE", "momentum { rate: 0.05 momentum: 0.9 }");
  Run(Order({0, 1}, 8));
  members_[1]->state->vectors()[1][3] += 1.0f;  // a bit of memory has fallen over
  const NextWorkReply::Synchronize order = Order({0, 1}, 12);
  EXPECT_FALSE(order.share());
  Run(order);
  for (const auto& member : members_) {
    EXPECT_THAT(member->runner->Report().broken(), HasSubstr("worker/1 has another state"));
  }
  EXPECT_TRUE(members_[0]->state->has());
  EXPECT_FALSE(members_[1]->state->has());
  Run(Order({0, 1}, 12));
  EXPECT_EQ(ParametersOf(1), ParametersOf(0));
  EXPECT_EQ(members_[1]->state->at().batches(), 12u);
}

TEST_F(SynchronousRunnerTest, AMemberThatLeavesEndsTheGroupAndNotTheOthers) {
  Make(3, "reduce: RING sum_order: BY_RANK scale_rate: LINEAR");
  Run(Order({0, 1, 2}, 3000), [](TestMember* member) {
    if (member->worker == 1 && member->state->at().updates() == 7) {
      member->runner->Leave();
    }
  });
  EXPECT_EQ(members_[1]->state->at().updates(), 7u);
  for (const uint32_t worker : {0, 2}) {
    const SynchronousReport report = members_[worker]->runner->Report();
    EXPECT_FALSE(report.broken().empty());
    EXPECT_EQ(report.missing(), 1u) << report.broken();
    EXPECT_EQ(report.newest_group(), report.group());
    // The sum of its last step may have come to one of them, and not to the other.
    EXPECT_GE(report.at().updates(), 6u);
    EXPECT_EQ(report.all_at().updates() + 1, report.at().updates());
  }
  Run(Order({0, 2}, 31));
  EXPECT_EQ(ParametersOf(0), ParametersOf(2));
}

TEST_F(SynchronousRunnerTest, AnAbortEndsAStepAtOnce) {
  Make(2, "reduce: RING");
  NextWorkReply::Synchronize order = Order({0, 1}, 100);
  order.set_rank(0);
  ASSERT_OK(members_[0]->runner->Take(order));
  std::jthread aborts([&] { members_[0]->runner->Abort(); });  // nobody else is there
  EXPECT_TRUE(absl::IsCancelled(members_[0]->runner->Step()));
}

TEST_F(SynchronousRunnerTest, WritesWhatItHadWhenItHeardOfIt) {
  Make(3, "reduce: RING", "momentum { rate: 0.05 momentum: 0.9 }");
  Run(Order({0, 1}, 8));
  const std::vector<float> then = ParametersOf(0);
  NextWorkReply::Synchronize order = Order({0, 1}, 40);
  order.set_write(1);
  Run(order);
  const SynchronousReport report = members_[0]->runner->Report();
  EXPECT_EQ(report.written(), 1u);
  EXPECT_EQ(report.written_at().updates(), 4u);
  EXPECT_EQ(report.written_at().batches(), 8u);
  EXPECT_EQ(store_->parameters(), then);
  EXPECT_EQ(store_->version(), 4u);
  // Others go on from that.
  const MemberState& fetched = *members_[2]->state;
  NextWorkReply::Synchronize alone = Order({2}, 8);
  alone.clear_source();
  alone.mutable_from()->set_batches(8);
  Run(alone);
  EXPECT_EQ(ParametersOf(2), then);
  EXPECT_EQ(fetched.at().updates(), 4u);
  EXPECT_EQ(fetched.at().batches(), 8u);
}

TEST_F(SynchronousRunnerTest, ALossThatIsNotFiniteIsEverybodysAndThePolicysAffair) {
  Make(2, "reduce: RING", "sgd { rate: 3e38 }");
  std::latch done(2);
  std::vector<std::jthread> threads;
  const NextWorkReply::Synchronize order = Order({0, 1}, 100);
  for (uint32_t rank : {0u, 1u}) {
    threads.emplace_back([&, rank] {
      NextWorkReply::Synchronize mine = order;
      mine.set_rank(rank);
      SynchronousRunner& runner = *members_[rank]->runner;
      ASSERT_OK(runner.Take(mine));
      absl::Status status;
      while (runner.left() && status.ok()) {
        status = runner.Step();
      }
      EXPECT_THAT(std::string(status.message()), HasSubstr("not finite"));
      done.arrive_and_wait();
    });
  }
  threads.clear();
  EXPECT_EQ(members_[0]->state->at().updates(), members_[1]->state->at().updates());
}

}  // namespace
}  // namespace monsoon
