// Programs with models of their own in a cluster of real servers, over the C interface.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cluster/test_cluster.h"
#include "tests/program/test_program.h"

namespace monsoon::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kData[] = " batch_size: 4 block_examples: 8 train { joiners { examples: 100 } } ";
constexpr char kSgd[] = "downpour { overlap: NONE optimizer { sgd { rate: 0.125 } } } ";

class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(cluster_.Start()); }

  ProgramOptions Options(const std::string& settings) const {
    return {.coordinator = cluster_.cluster().coordinator().address(),
            .settings = absl::StrCat("name: 'own' ", settings)};
  }

  static void KillSidecar(uint32_t pid) {
    ASSERT_GT(pid, 1u);
    ASSERT_EQ(kill(static_cast<pid_t>(pid), SIGKILL), 0);
  }

  TestCluster cluster_{{.shards = 2, .workers = 0}};
};

TEST_F(ProgramTest, AJobEndsWithTheBitsOfAPlainLoop) {
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 4 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  ASSERT_TRUE(program.Begin()) << program.error();
  std::vector<float> w = program.initial();
  size_t steps = 0;
  while (program.event().kind != MONSOON_ENDED) {
    const monsoon_batch batch = program.Draw();
    ASSERT_EQ(program.code(), MONSOON_OK) << program.error();
    if (batch.count == 0) {
      continue;
    }
    const std::vector<float> gradient = GradientOf(batch, w);
    ASSERT_TRUE(program.Step(batch)) << program.error();
    for (size_t i = 0; i < w.size(); ++i) {
      w[i] -= 0.125f * gradient[i];
      ASSERT_EQ(w[i], program.parameters()[i]) << "step " << steps << ", value " << i;
    }
    ++steps;
  }
  EXPECT_EQ(steps, 100u);
  EXPECT_EQ(program.stats().steps, 100u);
  EXPECT_EQ(program.stats().examples, 400u);
  EXPECT_EQ(program.stats().pushes, 100u);  // of its last session, after that
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.counts().pushes(), 100u);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> shards, cluster_.Parameters("own-1"));
  EXPECT_EQ(std::vector<float>(shards.begin(), shards.begin() + kFloats), w);
  EXPECT_TRUE(program.Leave()) << program.error();
}

TEST_F(ProgramTest, SeveralProgramsVisitEachSampleOncePerEpoch) {
  constexpr int kPrograms = 3;
  std::mutex mutex;
  std::map<std::pair<uint32_t, uint32_t>, int> visits;
  std::vector<std::thread> threads;
  for (int i = 0; i < kPrograms; ++i) {
    threads.emplace_back([&] {
      TestProgram program(Options(absl::StrCat("downpour { optimizer { adagrad { rate: 0.1 } } }",
                                               kData, "stop { epochs: 6 }")));
      ASSERT_TRUE(program.joined()) << program.error();
      ASSERT_TRUE(program.Begin()) << program.error();
      EXPECT_TRUE(program.Train([&](const monsoon_batch& batch) {
        std::lock_guard lock(mutex);
        for (size_t s = 0; s < batch.count; ++s) {
          ++visits[{batch.epoch, batch.samples[s]}];
        }
      })) << program.error();
      EXPECT_TRUE(program.Leave()) << program.error();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(visits.size(), 600u);
  for (const auto& [sample, times] : visits) {
    EXPECT_EQ(times, 1) << "epoch " << sample.first << ", sample " << sample.second;
  }
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.data().blocks_done(), 78u);
  EXPECT_EQ(end.progress().examples(), 600u);
}

TEST_F(ProgramTest, LocalStepsTravelAsDifferences) {
  TestProgram program(Options(
      absl::StrCat("downpour { overlap: NONE local { steps: 7 } }", kData, "stop { epochs: 2 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  EXPECT_EQ(monsoon_local_steps(program.replica()), 7u);
  ASSERT_TRUE(program.Begin()) << program.error();
  std::vector<float> w = program.initial();
  ASSERT_TRUE(program.Train(
      [&](const monsoon_batch& batch) {
        const std::vector<float> gradient = GradientOf(batch, w);
        for (size_t i = 0; i < w.size(); ++i) {
          w[i] -= 0.125f * gradient[i];
        }
      },
      0.125f))
      << program.error();
  EXPECT_EQ(program.stats().steps, 50u);
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.counts().steps(), 50u);
  EXPECT_GE(end.counts().pushes(), 8u);  // 50 / 7, and where the data paused
  ASSERT_OK_AND_ASSIGN(const std::vector<float> shards, cluster_.Parameters("own-1"));
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_NEAR(shards[i], w[i], 1e-6f) << i;
  }
}

TEST_F(ProgramTest, OtherSettingsAreRefusedByTheFirstThatDiffers) {
  TestProgram first(Options(absl::StrCat(kSgd, kData, "stop { epochs: 4 }")));
  ASSERT_TRUE(first.joined()) << first.error();
  ASSERT_TRUE(first.Begin()) << first.error();
  TestProgram other(Options(absl::StrCat(
      "downpour { overlap: NONE optimizer { sgd { rate: 0.5 } } }", kData, "stop { epochs: 4 }")));
  EXPECT_FALSE(other.joined());
  EXPECT_EQ(other.code(), MONSOON_INVALID_ARGUMENT);
  EXPECT_THAT(other.error(), HasSubstr("downpour.optimizer.sgd.rate is 0.5"));
  ProgramOptions wider = Options(absl::StrCat(kSgd, kData, "stop { epochs: 4 }"));
  wider.floats = 26;
  TestProgram another(wider);
  EXPECT_FALSE(another.joined());
  EXPECT_THAT(another.error(), HasSubstr("w is (13, 2)"));
  EXPECT_TRUE(first.Leave());
}

TEST_F(ProgramTest, AMistakeInTheSettingsIsNamedByItsLine) {
  TestProgram program(Options("\ndownpour { optimizer { sgd { rat: 1 } } }\n batch_size: 4"));
  EXPECT_FALSE(program.joined());
  EXPECT_EQ(program.code(), MONSOON_INVALID_ARGUMENT);
  EXPECT_THAT(program.error(), HasSubstr("job settings:2:"));
  EXPECT_THAT(program.error(), HasSubstr("rat"));
}

TEST_F(ProgramTest, OneThatLeavesGivesItsBatchesBack) {
  const std::string settings = absl::StrCat(kSgd, kData, "stop { epochs: 2 }");
  {
    TestProgram leaver(Options(settings));
    ASSERT_TRUE(leaver.joined()) << leaver.error();
    ASSERT_TRUE(leaver.Begin()) << leaver.error();
    ASSERT_TRUE(leaver.Step(leaver.Draw())) << leaver.error();
    leaver.Draw();
    EXPECT_TRUE(leaver.Leave()) << leaver.error();
  }
  ASSERT_OK(cluster_.Await(
      "own-1", [](const JobDescription& job) { return job.summary().state() == PENDING; }));
  TestProgram stayer(Options(settings));
  ASSERT_TRUE(stayer.joined()) << stayer.error();
  ASSERT_TRUE(stayer.Begin()) << stayer.error();
  EXPECT_TRUE(stayer.Train()) << stayer.error();
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_GT(end.data().blocks_released(), 0u);
}

TEST_F(ProgramTest, EvaluatesWhatTheShardsHold) {
  TestProgram program(Options(absl::StrCat(kSgd, kData,
                                           "test { joiners { examples: 1 } } "
                                           "evaluation { every_epochs: 1 } stop { epochs: 2 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  std::vector<float> last;
  int evaluations = 0;
  program.evaluate = [&](const float* w) {
    last.assign(w, w + kFloats);
    ++evaluations;
    return std::vector<monsoon_metric>{
        {"loss", 0.5}, {"accuracy", 0.75}, {"perplexity", 10.0 + evaluations}};
  };
  ASSERT_TRUE(program.Begin()) << program.error();
  EXPECT_TRUE(program.Train()) << program.error();
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(evaluations, 2);
  EXPECT_EQ(end.final_test_accuracy(), 0.75);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> shards, cluster_.Parameters("own-1"));
  EXPECT_EQ(last, std::vector<float>(shards.begin(), shards.begin() + kFloats));
}

TEST_F(ProgramTest, ACancelledJobEndsTheLoop) {
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 1000000 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  ASSERT_TRUE(program.Begin()) << program.error();
  ASSERT_TRUE(program.Step(program.Draw()));
  ASSERT_OK(cluster_.client()->Cancel("own-1"));
  EXPECT_FALSE(program.Train());
  EXPECT_EQ(program.code(), MONSOON_CANCELLED);
  EXPECT_THAT(program.error(), HasSubstr("own-1"));
  EXPECT_TRUE(program.Leave());
}

TEST_F(ProgramTest, AForkMustNotUseItsParentsReplica) {
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 2 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  ASSERT_TRUE(program.Begin()) << program.error();
  const pid_t child = fork();
  if (child == 0) {
    monsoon_batch batch{};
    monsoon_event event{};
    const monsoon_code code = monsoon_draw(program.replica(), &batch, &event);
    _exit(code == MONSOON_FAILED_PRECONDITION ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(program.Train()) << program.error();
}

TEST_F(ProgramTest, ASidecarThatDiesIsReplaced) {
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 2 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  const uint32_t first = program.stats().sidecar_pid;
  KillSidecar(first);  // before the job begins
  ASSERT_TRUE(program.Begin()) << program.error();
  EXPECT_NE(program.stats().sidecar_pid, first);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(program.Step(program.Draw())) << program.error();
  }
  const monsoon_batch batch = program.Draw();
  std::ranges::fill_n(program.parameters(), kFloats, 99.0f);
  KillSidecar(program.stats().sidecar_pid);
  ASSERT_TRUE(program.Step(batch)) << program.error();
  EXPECT_EQ(program.event().discarded, 1);
  EXPECT_EQ(program.event().parameters_changed, 1);
  EXPECT_LT(program.parameters()[0], 10.0f) << "they are the job's again";
  EXPECT_EQ(program.stats().steps, 5u);
  EXPECT_EQ(program.stats().sessions, 2u);
  EXPECT_TRUE(program.Train()) << program.error();
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.data().blocks_done(), 26u);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> shards, cluster_.Parameters("own-1"));
  EXPECT_EQ(std::vector<float>(shards.begin(), shards.begin() + kFloats),
            std::vector<float>(program.parameters(), program.parameters() + kFloats));
  EXPECT_TRUE(program.Leave()) << program.error();
}

// At any moment of a step: mostly while a push is under way.
TEST_F(ProgramTest, SidecarsMayDieWhileTheyPush) {
  constexpr int kKills = 6;
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 40 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  ASSERT_TRUE(program.Begin()) << program.error();
  std::mt19937 random(7);
  std::vector<std::thread> killers;
  std::map<std::pair<uint32_t, uint32_t>, int> visits;
  uint32_t killed = 0;
  int steps = 0;
  EXPECT_TRUE(program.Train([&](const monsoon_batch& batch) {
    for (size_t s = 0; s < batch.count; ++s) {
      ++visits[{batch.epoch, batch.samples[s]}];
    }
    const uint32_t pid = program.stats().sidecar_pid;
    if (++steps % 50 == 0 && killers.size() < kKills && pid != killed) {
      killed = pid;
      const auto moment = std::chrono::microseconds(random() % 3000);
      killers.emplace_back([pid, moment] {
        const auto end = std::chrono::steady_clock::now() + moment;
        while (std::chrono::steady_clock::now() < end) {
          std::this_thread::yield();
        }
        KillSidecar(pid);
      });
    }
  })) << program.error();
  for (std::thread& killer : killers) {
    killer.join();
  }
  EXPECT_EQ(killers.size(), kKills);
  EXPECT_EQ(program.stats().sessions, 1u + kKills);
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
  EXPECT_EQ(end.data().blocks_done(), 13u * 40u);
  // Each sample in each epoch, but for a step that counted and whose answer died.
  EXPECT_GE(visits.size() + 4 * kKills, 100u * 40u);
  EXPECT_TRUE(program.Leave()) << program.error();
}

TEST_F(ProgramTest, OneWhoseJobEndsWhileItsSidecarIsDeadHearsOfTheEnd) {
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 1000000 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  ASSERT_TRUE(program.Begin()) << program.error();
  KillSidecar(program.stats().sidecar_pid);
  ASSERT_OK(cluster_.client()->Cancel("own-1"));
  ASSERT_OK(cluster_.AwaitEnd("own-1").status());
  EXPECT_FALSE(program.Train());
  EXPECT_EQ(program.code(), MONSOON_CANCELLED);
  EXPECT_THAT(program.error(), HasSubstr("job own-1: cancelled by a user"));
  EXPECT_TRUE(program.Leave()) << program.error();
}

TEST_F(ProgramTest, WhatAProgramDoesNotTellIsNotZero) {
  TestProgram program(Options(absl::StrCat(kSgd, kData, "stop { epochs: 1 }")));
  ASSERT_TRUE(program.joined()) << program.error();
  ASSERT_TRUE(program.Begin()) << program.error();
  EXPECT_TRUE(program.Train()) << program.error();
  ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd("own-1"));
  EXPECT_EQ(end.progress().loss(), 1.0);
  EXPECT_FALSE(end.progress().has_train_accuracy()) << end.progress().train_accuracy();
}

TEST_F(ProgramTest, NobodyThereIsToldWithTheAddress) {
  ProgramOptions options = Options(absl::StrCat(kSgd, kData, "stop { epochs: 2 }"));
  options.only_enter = true;
  TestProgram program(options);
  EXPECT_FALSE(program.joined());
  EXPECT_EQ(program.code(), MONSOON_NOT_FOUND);
  EXPECT_THAT(program.error(), HasSubstr("own"));
}

}  // namespace
}  // namespace monsoon::testing
