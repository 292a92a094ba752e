#include "coordinator/downpour/settable.h"

#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::StatusIs;

Job Parse(const char* text) {
  Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

const char kGradients[] = R"(
  downpour {
    optimizer { adagrad { rate: 0.05 } damping: 0.5 }
    local_update { sgd_rate: 0.01 }
    staleness_bound: 4
    workers: 2
  })";
const char kRounds[] = R"(
  downpour {
    optimizer { nesterov { rate: 0.7 momentum: 0.9 } }
    local { steps: 50 inner { adam_w { rate: 0.001 } muon { rate: 0.02 } } }
    rounds { quorum: 2 grace_seconds: 1 }
  })";

// "path: from -> to, taken by"
std::vector<std::string> Changes(const char* job, const std::vector<std::string>& settings) {
  const auto changed = ChangeSettings(Parse(job), settings);
  EXPECT_OK(changed);
  std::vector<std::string> texts;
  for (const SettingChange& change :
       changed.ok() ? changed->changes : std::vector<SettingChange>()) {
    texts.push_back(change.path() + ": " + change.from() + " -> " + change.to() + ", " +
                    change.taken_by());
  }
  return texts;
}

std::string Refusal(const char* job, const std::string& setting) {
  const auto changed = ChangeSettings(Parse(job), std::vector<std::string>{setting});
  EXPECT_TRUE(absl::IsInvalidArgument(changed.status())) << changed.status();
  return std::string(changed.status().message());
}

TEST(SettableTest, EachRowOfTheTableCanBeSet) {
  EXPECT_THAT(
      Changes(kGradients,
              {"downpour.workers=3", "downpour.staleness_bound=8", "downpour.optimizer.damping=0",
               "downpour.optimizer.adagrad.rate=0.1", "downpour.local_update.sgd_rate=0.5"}),
      ::testing::ElementsAre(
          "downpour.local_update.sgd_rate: 0.01 -> 0.5, each worker, from its next push on",
          "downpour.optimizer.adagrad.rate: 0.05 -> 0.1, each parameter server, from its next push "
          "on",
          "downpour.optimizer.damping: 0.5 -> 0, each parameter server, from its next push on",
          "downpour.staleness_bound: 4 -> 8, each worker, from its next push on",
          "downpour.workers: 2 -> 3, the coordinator, at once"));
  EXPECT_THAT(
      Changes(kRounds, {"downpour.optimizer.nesterov.rate=0.5", "downpour.local.steps=100",
                        "downpour.local.inner.adam_w.rate=0.01", "downpour.rounds.quorum=3",
                        "downpour.local.inner.muon.rate=0.01", "downpour.rounds.grace_seconds=2",
                        "downpour.rounds.adaptive_share=0.5"}),
      ::testing::ElementsAre(
          "downpour.local.inner.adam_w.rate: 0.001 -> 0.01, each worker, from its next push on",
          "downpour.local.inner.muon.rate: 0.02 -> 0.01, each worker, from its next push on",
          "downpour.local.steps: 50 -> 100, each worker, from its next push on",
          "downpour.optimizer.nesterov.rate: 0.7 -> 0.5, the parameter servers, all from one round "
          "on",
          "downpour.rounds.adaptive_share: 0 -> 0.5, the parameter servers, all from one round on",
          "downpour.rounds.grace_seconds: 1 -> 2, the parameter servers, all from one round on",
          "downpour.rounds.quorum: 2 -> 3, the parameter servers, all from one round on"));
}

TEST(SettableTest, ABoundThatDropsIsTheShards) {
  const char job[] = "downpour { staleness_bound: 4 staleness_policy: DROP_OLDER }";
  EXPECT_THAT(Changes(job, {"downpour.staleness_bound=8"}),
              ::testing::ElementsAre(HasSubstr("each parameter server")));
}

TEST(SettableTest, WhatIsSoAlreadyIsNoChangeAndTheLastOfTwoCounts) {
  EXPECT_TRUE(Changes(kGradients, {"downpour.workers=2"}).empty());
  EXPECT_THAT(Changes(kGradients, {"downpour.workers=3", "downpour.workers=4"}),
              ::testing::ElementsAre(HasSubstr("2 -> 4")));
  EXPECT_TRUE(Changes(kGradients, {"downpour.workers=3", "downpour.workers=2"}).empty());
}

TEST(SettableTest, AllElseIsRefusedByName) {
  EXPECT_THAT(Refusal(kGradients, "seed=3"),
              AllOf(HasSubstr("set seed=3: seed is not one of those"),
                    HasSubstr("downpour.optimizer.*.rate")));
  EXPECT_THAT(Refusal(kGradients, "downpour.optimizer={adagrad{rate:1}}"),
              HasSubstr("downpour.optimizer is not one"));
  EXPECT_THAT(Refusal(kGradients, "downpour.optimizer.adagrad.epsilon=1"), HasSubstr("not one"));
  EXPECT_THAT(Refusal(kGradients, "downpour.optimizer.schedule.warm_up_pushes=1"),
              HasSubstr("not one"));
  EXPECT_THAT(Refusal(kGradients, "downpour.optimizer.sgd.rate=0.1"),
              HasSubstr("the job has no downpour.optimizer.sgd"));
  EXPECT_THAT(Refusal(kGradients, "downpour.optimizer.adagard.rate=0.1"),
              HasSubstr("there is no downpour.optimizer.adagard"));
  EXPECT_THAT(Refusal(kGradients, "downpour.optimizer.damping.rate=0.1"),
              HasSubstr("downpour.optimizer.damping has no fields"));
  EXPECT_THAT(Refusal(kGradients, "downpour.rounds.quorum=1"),
              HasSubstr("the job has no downpour.rounds"));
  EXPECT_THAT(Refusal(kGradients, "downpour.local_update.adagrad_rate=1"),
              HasSubstr("the job has no downpour.local_update.adagrad_rate"));
  EXPECT_THAT(Refusal(kRounds, "downpour.staleness_bound=1"),
              HasSubstr("the job has no downpour.staleness_bound"));
  EXPECT_THAT(Refusal(kGradients, "downpour.workers=many"), HasSubstr("downpour.workers"));
  EXPECT_THAT(Refusal("sandblaster { }", "downpour.workers=1"),
              HasSubstr("the job has no downpour"));
  EXPECT_THAT(ChangeSettings(Job(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("PATH=VALUE")));
}

TEST(SettableTest, WhatAProgramHasItSetsItself) {
  Job job = Parse(kGradients);
  job.mutable_model()->add_tensor()->set_name("w");
  for (const char* const setting : {"downpour.local.steps=3", "downpour.local.inner.sgd.rate=1",
                                    "downpour.local_update.sgd_rate=1", "downpour.workers=3"}) {
    EXPECT_THAT(ChangeSettings(job, std::vector<std::string>{setting}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("programs' own")));
  }
  EXPECT_OK(ChangeSettings(job, std::vector<std::string>{"downpour.optimizer.adagrad.rate=1"}));
}

}  // namespace
}  // namespace monsoon
