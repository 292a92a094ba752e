#include "worker/sandblaster/contribution_runner.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/base/check.h"
#include "common/testing/status_matchers.h"
#include "proto/job.pb.h"
#include "worker/backend/backend.h"
#include "worker/data/synthetic.h"
#include "worker/nn/test_models.h"
#include "worker/testing/fake_device.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using testing::FakeNetwork;
using testing::FakeShards;
using testing::FakeSource;
using testing::MakeContribute;
using testing::StatusIs;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr uint64_t kExamples = 103;
constexpr uint32_t kContribution = 30;

// Things that happened, for threads to wait for each other.
class Timeline {
 public:
  void Note(const std::string& what) {
    {
      MutexLock lock(&mutex_);
      seen_.push_back(what);
    }
    changed_.NotifyAll();
  }
  bool Await(const std::string& what) {
    MutexLock lock(&mutex_);
    return changed_.WaitFor(&mutex_, kLong, [&] {
      mutex_.AssertHeld();
      return std::find(seen_.begin(), seen_.end(), what) != seen_.end();
    });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> seen_ ABSL_GUARDED_BY(mutex_);
};

Job MakeJob(uint32_t batch_size, uint32_t chunk_examples) {
  Job job;
  job.set_seed(5);
  job.set_batch_size(batch_size);
  job.mutable_sandblaster()->set_chunk_examples(chunk_examples);
  return job;
}

// Contributions 0 to 3 of kExamples samples; the last is short.
NextWorkReply::Contribute WorkOf(uint64_t evaluation, const std::vector<uint32_t>& contributions) {
  NextWorkReply::Contribute work = MakeContribute(evaluation, contributions, kContribution);
  for (NextWorkReply::Contribution& contribution : *work.mutable_contribution()) {
    if (contribution.first() + kContribution > kExamples) {
      contribution.set_examples(static_cast<uint32_t>(kExamples - contribution.first()));
    }
  }
  return work;
}

// ---- with real networks and data ---------------------------------------------

class ContributionBitsTest : public ::testing::Test {
 protected:
  ContributionBitsTest()
      : model_(testing::ParseModel(R"pb(
          input_shape: 6
          layer { dense { units: 20 } }
          layer { tanh {} }
          layer { dropout { rate: 0.3 } }
          layer { dense { units: 3 } }
        )pb")),
        layout_(testing::MakeLayout(model_)),
        parameters_(testing::InitialParameters(layout_, 1)) {
    SyntheticSource source;
    source.set_examples(kExamples);
    source.set_classes(3);
    source.set_seed(2);
    auto made = MakeSynthetic(source, 6, 0, {});
    CHECK_OK(made.status());
    data_ = *std::move(made);
  }

  // One replica computes these pieces of evaluation 1, each list as one answer
  // of the coordinator. Returns gradients by contribution, and the results.
  std::map<uint32_t, std::pair<ContributionResult, std::vector<float>>> Compute(
      uint32_t worker, const std::vector<std::vector<uint32_t>>& answers, uint32_t replicas = 1,
      bool on_device = false) {
    FakeShards shards(layout_.size());
    shards.SetVector("w1", parameters_);
    StatsCollector stats;
    const auto make = [&](uint32_t) -> absl::StatusOr<std::unique_ptr<Network>> {
      auto network = CreateNetwork(BackendKind::kCpu, model_, layout_, {});
      if (!on_device) return network;
      return std::make_unique<testing::FakeDevice>(*std::move(network), layout_.size());
    };
    auto group = ReplicaGroup::Create({worker, kLong, &stats}, replicas, make);
    CHECK_OK(group.status());
    SessionControl control(Clock::Real(), kLong);
    ContributionReader reader(data_.get(), MakeJob(4, 10), replicas);
    ContributionRunner runner({layout_.size(), 5, worker, {}}, &reader, &shards, group->get(),
                              &stats, &control, Clock::Real());
    for (const std::vector<uint32_t>& answer : answers) {
      EXPECT_OK(runner.Append(WorkOf(1, answer)));
      while (runner.left() > 0) EXPECT_OK(runner.Step());
    }
    EXPECT_OK(runner.AwaitSent());
    std::map<uint32_t, std::pair<ContributionResult, std::vector<float>>> computed;
    const auto contributed = shards.contributed();
    for (const ContributionResult& result : runner.TakeResults()) {
      computed[result.contribution()] = {result, contributed.at({1, result.contribution()})};
    }
    EXPECT_EQ(computed.size(), contributed.size());
    EXPECT_EQ(shards.fetches(), 1);  // for all replicas
    return computed;
  }

  const Model model_;
  const ParameterLayout layout_;
  const std::vector<float> parameters_;
  std::unique_ptr<DataSource> data_;
};

TEST_F(ContributionBitsTest, SumsEqualTheReferencesFullBatch) {
  std::vector<uint32_t> all(kExamples);
  std::iota(all.begin(), all.end(), 0u);
  Batch batch(kExamples, 6);
  EXPECT_OK(data_->Gather(all, &batch));
  batch.examples = kExamples;
  ASSERT_OK_AND_ASSIGN(const auto oracle,
                       CreateNetwork(BackendKind::kReference, model_, layout_, NetworkOptions{}));
  oracle->SetParameters(parameters_);
  std::vector<float> mean(layout_.size());
  ASSERT_OK_AND_ASSIGN(const StepResult want,
                       oracle->LossAndGradient(batch, StepKey{5, 0, 0, all}, mean));

  std::vector<double> sum(layout_.size());
  double loss = 0;
  double correct = 0;
  uint64_t examples = 0;
  for (const auto& [id, computed] : Compute(1, {{0, 1, 2, 3}})) {
    const auto& [result, gradient] = computed;
    EXPECT_TRUE(result.finite());
    EXPECT_FALSE(result.closed());
    EXPECT_EQ(result.evaluation(), 1u);
    loss += result.loss_sum();
    correct += result.correct();
    examples += result.examples();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
  }
  EXPECT_EQ(examples, kExamples);
  EXPECT_EQ(correct, want.correct);
  EXPECT_NEAR(loss, want.loss_mean * kExamples, 1e-5 * loss);
  double largest = 0;
  for (const float g : mean) largest = std::max(largest, std::abs(g * double{kExamples}));
  for (size_t i = 0; i < sum.size(); ++i) {
    ASSERT_NEAR(sum[i], mean[i] * double{kExamples}, 1e-5 * largest) << i;
  }
}

TEST_F(ContributionBitsTest, BitsDoNotDependOnWhoComputesWhatWhereOrWhen) {
  const auto want = Compute(0, {{0, 1, 2, 3}});
  ASSERT_EQ(want.size(), 4u);
  uint32_t replicas = 0;
  for (const auto& answers : std::vector<std::vector<std::vector<uint32_t>>>{
           {{3, 2, 1, 0}}, {{2}, {0}, {3}, {1}}, {{1, 3}}, {{0}}, {{3, 2, 1, 0}}, {{0}, {1, 2}}}) {
    ++replicas;
    for (const bool on_device : {false, true}) {
      const auto computed = Compute(7, answers, replicas, on_device);
      EXPECT_FALSE(computed.empty());
      for (const auto& [id, got] : computed) {
        const auto& [result, gradient] = got;
        EXPECT_EQ(result.loss_sum(), want.at(id).first.loss_sum()) << id;
        EXPECT_EQ(result.correct(), want.at(id).first.correct());
        const std::vector<float>& expected = want.at(id).second;
        EXPECT_EQ(std::memcmp(gradient.data(), expected.data(), gradient.size() * sizeof(float)), 0)
            << id << (on_device ? " on a device" : "");
      }
    }
  }
}

// ---- with fakes ----------------------------------------------------------------

class ContributionRunnerTest : public ::testing::Test {
 protected:
  ContributionRunnerTest() : layout_(testing::SmallLayout()), shards_(layout_.size()) {
    for (const char* name : {"w1", "w2", "w3"}) {
      shards_.SetVector(name, std::vector<float>(layout_.size(), name[1] - '0'));
    }
    options_.floats = layout_.size();
    control_.OnStop([this] { shards_.Cancel(); });
  }

  ContributionRunner& Runner() {
    if (runner_ == nullptr) {
      reader_ = std::make_unique<ContributionReader>(&source_, MakeJob(10, 10));
      runner_ = std::make_unique<ContributionRunner>(options_, reader_.get(), &shards_, &group_,
                                                     &stats_, &control_, Clock::Real());
    }
    return *runner_;
  }
  absl::Status RunAll() {
    while (Runner().left() > 0) RETURN_IF_ERROR(Runner().Step());
    return Runner().AwaitSent();
  }
  // As "evaluation/contribution", with what is special about it.
  std::vector<std::string> Results() {
    std::vector<std::string> names;
    for (const ContributionResult& result : Runner().TakeResults()) {
      names.push_back(absl::StrCat(result.evaluation(), "/", result.contribution(),
                                   result.finite() ? "" : " not finite",
                                   result.closed() ? " closed" : ""));
    }
    return names;
  }

  const ParameterLayout layout_;
  FakeShards shards_;
  FakeSource source_{1000};
  FakeNetwork network_;
  ReplicaGroup group_{{}, &network_};
  StatsCollector stats_;
  SessionControl control_{Clock::Real(), kLong};
  ContributionRunnerOptions options_;
  std::unique_ptr<ContributionReader> reader_;
  std::unique_ptr<ContributionRunner> runner_;
};

TEST_F(ContributionRunnerTest, FetchesOncePerEvaluationAndCounts) {
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1}, 30)));
  ASSERT_OK(RunAll());
  ASSERT_OK(Runner().Append(MakeContribute(1, {2}, 30)));
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("1/0", "1/1", "1/2"));
  ASSERT_OK(Runner().Append(MakeContribute(2, {0}, 30)));
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("2/0"));
  EXPECT_THAT(shards_.log(), ElementsAre("fetch w1", "contribute 1/0", "contribute 1/1",
                                         "contribute 1/2", "fetch w2", "contribute 2/0"));
  // Each step computed with its evaluation's parameters.
  EXPECT_THAT(network_.seen, ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2));
  // Every batch mean is 1: 30 samples sum to 30.
  EXPECT_EQ(shards_.contributed().at({1, 2}), std::vector<float>(layout_.size(), 30.0f));
  const ReplicaStats figures = stats_.Snapshot();
  EXPECT_EQ(figures.fetches(), 2u);
  EXPECT_EQ(figures.pushes(), 4u);
  EXPECT_EQ(figures.steps(), 4u);
  EXPECT_EQ(figures.examples(), 120u);
  EXPECT_EQ(figures.bytes_fetched(), 2 * layout_.size() * 4);
  EXPECT_EQ(figures.bytes_pushed(), 4 * layout_.size() * 4);
}

TEST_F(ContributionRunnerTest, ANonFiniteLossIsAResultAndNothingIsSent) {
  int steps = 0;
  network_.loss = [&](uint64_t) {
    return ++steps == 2 ? std::numeric_limits<double>::infinity() : 1.0;
  };
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1}, 30)));
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("1/0 not finite", "1/1"));
  EXPECT_THAT(shards_.log(), ElementsAre("fetch w1", "contribute 1/1"));
  EXPECT_EQ(steps, 5);  // the rest of the first contribution is not computed
}

TEST_F(ContributionRunnerTest, ANonFiniteGradientIsAResultAndNothingIsSent) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 3e38f}) {
    network_.spoil = [&](uint64_t, std::span<float> gradient) { gradient[3] = bad; };
    ASSERT_OK(Runner().Append(MakeContribute(1, {0}, 30)));
    ASSERT_OK(RunAll());
    EXPECT_THAT(Results(), ElementsAre("1/0 not finite")) << bad;
  }
  EXPECT_TRUE(shards_.contributed().empty());
}

TEST_F(ContributionRunnerTest, AClosedEvaluationIsGivenUp) {
  shards_.before_contribute = [](uint64_t evaluation, uint32_t contribution) {
    return evaluation == 1 && contribution == 1;
  };
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1, 2, 3}, 10)));
  ASSERT_OK(RunAll());
  // The third was being computed, or not yet, when the answer came.
  EXPECT_THAT(Results(), ElementsAre("1/0", "1/1 closed", "1/2 closed", "1/3 closed"));
  EXPECT_LE(network_.seen.size(), 3u);
  EXPECT_EQ(stats_.Snapshot().steps(), 1u);
  ASSERT_OK(Runner().Append(MakeContribute(2, {3}, 10)));
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("2/3"));
}

TEST_F(ContributionRunnerTest, AVectorThatIsGoneEndsTheEvaluation) {
  ASSERT_OK(Runner().Append(MakeContribute(9, {4, 5}, 10)));
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("9/4 closed", "9/5 closed"));
  EXPECT_TRUE(network_.seen.empty());
}

TEST_F(ContributionRunnerTest, ANewerEvaluationReplacesTheOlder) {
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1}, 20)));
  ASSERT_OK(Runner().Step());
  ASSERT_OK(Runner().Append(MakeContribute(2, {5}, 20)));
  EXPECT_EQ(Runner().left(), 1u);
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("2/5"));
  EXPECT_EQ(shards_.contributed().at({2, 5})[0], 20.0f);
}

TEST_F(ContributionRunnerTest, AsksAShardThatDoesNotAnswerAgain) {
  int fetches = 0, sends = 0;
  shards_.before_fetch = [&] {
    return ++fetches < 3 ? absl::UnavailableError("ps/0: nobody there") : absl::OkStatus();
  };
  shards_.before_contribute = [&](uint64_t, uint32_t) -> absl::StatusOr<bool> {
    if (++sends < 3) return absl::DeadlineExceededError("ps/1: no answer");
    return false;
  };
  ASSERT_OK(Runner().Append(MakeContribute(1, {0}, 30)));
  ASSERT_OK(RunAll());
  EXPECT_THAT(Results(), ElementsAre("1/0"));
  EXPECT_EQ(stats_.Snapshot().retries(), 4u);
  EXPECT_EQ(stats_.Snapshot().fetches(), 1u);
}

TEST_F(ContributionRunnerTest, ALostSessionIsAnErrorAndNoResult) {
  shards_.before_contribute = [](uint64_t, uint32_t) -> absl::StatusOr<bool> {
    return absl::FailedPreconditionError("ps/0: no such session");
  };
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1, 2}, 10)));
  EXPECT_THAT(RunAll(), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
  EXPECT_TRUE(Results().empty());
  EXPECT_THAT(Runner().Step(), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::_));
}

TEST_F(ContributionRunnerTest, ALeavingReplicaFinishesOnlyWhatItBegan) {
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1}, 30)));
  ASSERT_OK(Runner().Step());
  ASSERT_OK(Runner().FinishCurrent());
  EXPECT_THAT(Results(), ElementsAre("1/0"));
  EXPECT_EQ(network_.seen.size(), 3u);
  EXPECT_EQ(Runner().left(), 0u);
}

TEST_F(ContributionRunnerTest, GathersAndSendsWhileItComputes) {
  Timeline timeline;
  source_.on_gather = [&](std::span<const uint32_t> samples) {
    timeline.Note(absl::StrCat("gather ", samples.front()));
  };
  int step = 0;
  bool gathered = true;
  network_.before_step = [&](uint64_t) {
    timeline.Note(absl::StrCat("compute ", step));
    // The last batch of contribution 0 ends only when the first of 1 is there.
    if (step == 1) gathered = timeline.Await("gather 20");
    ++step;
  };
  std::atomic<bool> sent_beside = true;
  shards_.before_contribute = [&](uint64_t, uint32_t contribution) {
    // Contribution 0 is acknowledged only when 1 is being computed.
    if (contribution == 0) sent_beside = timeline.Await("compute 2");
    return false;
  };
  ASSERT_OK(Runner().Append(MakeContribute(1, {0, 1}, 20)));
  ASSERT_OK(RunAll());
  EXPECT_TRUE(gathered);
  EXPECT_TRUE(sent_beside);
  EXPECT_THAT(Results(), ElementsAre("1/0", "1/1"));
}

TEST_F(ContributionRunnerTest, TheDelayOfAFaultIsPerChunk) {
  options_.chunk_delay = absl::Milliseconds(5);
  ASSERT_OK(Runner().Append(MakeContribute(1, {0}, 30)));
  ASSERT_OK(RunAll());
  const std::vector<ContributionResult> results = Runner().TakeResults();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_GE(results[0].compute_s(), 0.015);
}

}  // namespace
}  // namespace monsoon
