// A replica whose vectors stay on devices does to the bit what one does that has them on
// the host, and moves fewer of them.
#include <cmath>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "common/codec/tensor_codec.h"
#include "common/testing/status_matchers.h"
#include "proto/optimizer.pb.h"
#include "worker/backend/backend.h"
#include "worker/data/synthetic.h"
#include "worker/downpour/downpour_runner.h"
#include "worker/nn/test_models.h"
#include "worker/session/session_status.h"
#include "worker/testing/fake_device.h"
#include "worker/testing/fakes.h"

namespace monsoon {
namespace {

using testing::FakeDevice;
using testing::FakeShards;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr uint32_t kBatch = 8;

// Wraps a network that fails, or tells a loss that is no number, in one step.
class FaultyNetwork : public Network {
 public:
  FaultyNetwork(std::unique_ptr<Network> network, uint64_t fails_at, uint64_t nan_at)
      : network_(std::move(network)), fails_at_(fails_at), nan_at_(nan_at) {}
  void SetParameters(std::span<const float> parameters) override {
    network_->SetParameters(parameters);
  }
  absl::StatusOr<StepResult> LossAndGradient(const Batch& batch, const StepKey& key,
                                             std::span<float> gradient) override {
    if (key.step == fails_at_) return absl::InternalError("an illegal address");
    ASSIGN_OR_RETURN(StepResult result, network_->LossAndGradient(batch, key, gradient));
    if (key.step == nan_at_) {
      result.loss_mean = std::nan("");
      gradient[3] = std::nanf("");
    }
    return result;
  }
  absl::StatusOr<EvaluationResult> Evaluate(const Batch& batch) override {
    return network_->Evaluate(batch);
  }
  std::string Fingerprint() const override { return network_->Fingerprint(); }

 private:
  const std::unique_ptr<Network> network_;
  const uint64_t fails_at_;
  const uint64_t nan_at_;
};

struct Training {
  uint32_t replicas = 1;
  uint32_t n_fetch = 1;
  uint32_t n_push = 1;
  double sgd_rate = 0;
  double adagrad_rate = 0;
  uint32_t local_steps = 0;
  Optimizer inner;
  DivergencePolicy::Action action = DivergencePolicy::HALT;
  uint64_t fails_at = UINT64_MAX;  // the step in which replica `broken` fails
  uint32_t broken = 1;
  uint64_t nan_at = UINT64_MAX;
  WireFormat push_format = FLOAT32;
  bool evaluates = false;  // in the middle, with other parameters
  absl::Status room;       // what devices say when memory is asked for
  std::vector<Slice> statistics;
};

class OnDeviceTest : public ::testing::Test {
 protected:
  OnDeviceTest()
      : model_(testing::ParseModel(R"pb(
          input_shape: 12
          layer { dense { units: 20 } }
          layer { tanh {} }
          layer { dropout { rate: 0.3 } }
          layer { dense { units: 3 } }
        )pb")),
        layout_(testing::MakeLayout(model_)) {
    SyntheticSource source;
    source.set_examples(400);
    source.set_classes(3);
    source.set_seed(2);
    data_ = *MakeSynthetic(source, 12, 0, {});
  }

  // What the shards were sent, in order.
  std::vector<std::vector<float>> Train(const Training& run, bool on_device,
                                        uint32_t batches = 30) {
    devices_.clear();
    FakeShards shards(layout_.size());
    DownpourRunnerOptions options;
    options.overlap = NONE;
    options.n_fetch = run.n_fetch;
    options.n_push = run.n_push;
    if (run.local_steps > 0) {
      options.exchange = ExchangeKind::kDifferences;
      options.turn_steps = run.local_steps;
    }
    options.step_clip_norm = run.inner.clip_norm();
    options.push_format = shards.push_format = run.push_format;
    options.divergence.set_action(run.action);
    StatsCollector stats;
    SessionControl control(Clock::Real(), kLong);
    auto group = ReplicaGroup::Create(
        {0, kLong, &stats}, run.replicas,
        [&](uint32_t replica) -> absl::StatusOr<std::unique_ptr<Network>> {
          auto network = CreateNetwork(BackendKind::kCpu, model_, layout_, {});
          EXPECT_OK(network.status());
          auto faulty = std::make_unique<FaultyNetwork>(
              *std::move(network), replica == run.broken ? run.fails_at : UINT64_MAX, run.nan_at);
          if (!on_device) return faulty;
          auto device = std::make_unique<FakeDevice>(std::move(faulty), layout_.size());
          device->before_allocation = [room = run.room] { return room; };
          const std::lock_guard<std::mutex> lock(mutex_);
          devices_.push_back(device.get());
          return device;
        });
    EXPECT_OK(group.status());
    Downpour downpour;
    if (run.sgd_rate > 0) downpour.mutable_local_update()->set_sgd_rate(run.sgd_rate);
    if (run.adagrad_rate > 0) downpour.mutable_local_update()->set_adagrad_rate(run.adagrad_rate);
    if (run.local_steps > 0) *downpour.mutable_local()->mutable_inner() = run.inner;
    auto local = LocalUpdater::Create(downpour, *ShardMap::Create(layout_.size(), 1),
                                      TensorsOf(downpour, run.statistics));
    EXPECT_OK(local.status());
    DownpourRunner runner(options, &layout_, &shards, group->get(), *std::move(local), &stats,
                          &control, Clock::Real());
    Batch batch(kBatch, 12);
    status_ = absl::OkStatus();
    for (uint32_t next = 0; next < batches && status_.ok();) {
      if (run.evaluates && next >= batches / 2) {
        EXPECT_OK(runner.BringParameters());
        Lend(group->get());
        runner.RestoreParameters();
      }
      for (; runner.room() > 0 && next < batches; ++next) {
        std::vector<uint32_t> indices(kBatch);
        for (uint32_t i = 0; i < kBatch; ++i) indices[i] = (next * kBatch + i) % 400;
        EXPECT_OK(data_->Gather(indices, &batch));
        batch.examples = kBatch;
        runner.Add(&batch, std::nullopt);
      }
      status_ = runner.Step().status();
    }
    if (status_.ok()) {
      EXPECT_OK(runner.Flush());
    }
    vectors_in_ = vectors_out_ = 0;
    for (const FakeDevice* const device : devices_) {
      vectors_in_ += device->vectors_in;
      vectors_out_ += device->vectors_out;
    }
    return shards.pushed();
  }
  TensorRanges TensorsOf(const Downpour& downpour, const std::vector<Slice>& statistics) const {
    TensorRanges tensors = LocalUpdater::TensorsOf(downpour, model_, layout_);
    tensors.statistics = statistics;
    return tensors;
  }
  void Lend(ReplicaGroup* group) {
    auto zeros = std::make_shared<AlignedFloats>(layout_.size());
    group->SetParameters(zeros);
    Batch batch(kBatch, 12);
    while (group->room() > 0) {
      batch.examples = kBatch;
      group->Add(&batch, StepKey());
    }
    EXPECT_OK(group->Evaluate());
  }

  const Model model_;
  const ParameterLayout layout_;
  std::unique_ptr<DataSource> data_;
  std::mutex mutex_;
  std::vector<FakeDevice*> devices_;  // of the last run; gone with it
  absl::Status status_;
  size_t vectors_in_ = 0;
  size_t vectors_out_ = 0;
};

TEST_F(OnDeviceTest, SendsTheShardsTheSameBits) {
  for (const uint32_t replicas : {1u, 3u}) {
    for (const auto& [n_fetch, n_push] :
         {std::pair{1u, 1u}, {4u, 4u}, {2u, 5u}, {5u, 2u}, {1u, 3u}, {3u, 1u}}) {
      for (const double rate : {0.0, 0.05}) {
        for (const bool adagrad : {false, true}) {
          Training run{.replicas = replicas, .n_fetch = n_fetch, .n_push = n_push};
          (adagrad ? run.adagrad_rate : run.sgd_rate) = rate;
          SCOPED_TRACE(absl::StrCat(replicas, " replicas, ", n_fetch, "/", n_push, ", rate ", rate,
                                    adagrad ? " adagrad" : " sgd"));
          const auto on_host = Train(run, false);
          EXPECT_EQ(Train(run, true), on_host);
        }
      }
    }
  }
}

TEST_F(OnDeviceTest, LocalStepsSendTheShardsTheSameBits) {
  std::vector<Optimizer> inner(6);
  inner[0].mutable_sgd()->set_rate(0.05);
  inner[1].mutable_momentum()->set_rate(0.05);
  inner[1].mutable_momentum()->set_momentum(0.9);
  inner[2].mutable_adam_w()->set_rate(0.01);
  inner[3].mutable_rms_prop()->set_rate(0.01);
  inner[4].mutable_adam_w()->set_rate(0.01);
  inner[4].set_clip_norm(0.1);  // the host steps
  inner[5].mutable_adam_w()->set_rate(0.01);
  inner[5].mutable_muon()->set_rate(0.02);  // likewise
  for (const uint32_t replicas : {1u, 3u}) {
    for (size_t kind = 0; kind < inner.size(); ++kind) {
      SCOPED_TRACE(absl::StrCat(replicas, " replicas, inner optimizer ", kind));
      Training run{.replicas = replicas, .n_fetch = 4, .n_push = 4, .local_steps = 4};
      run.inner = inner[kind];
      const auto on_host = Train(run, false);
      EXPECT_EQ(Train(run, true), on_host);
      if (kind < 4) {
        EXPECT_EQ(vectors_in_, on_host.size());
        EXPECT_EQ(vectors_out_, on_host.size());
      }
    }
  }
}

TEST_F(OnDeviceTest, EncodesHalvesAsTheHostWould) {
  for (const WireFormat format : {BFLOAT16, FLOAT16}) {
    for (const uint32_t n_push : {1u, 4u}) {
      // One fetch, so that what is pushed does not depend on what was.
      Training run{.n_fetch = 1000, .n_push = n_push};
      std::vector<std::vector<float>> want = Train(run, false);
      std::vector<float> residual(layout_.size());
      for (std::vector<float>& push : want) {
        std::vector<float> scratch(push.size());
        std::vector<std::byte> bytes(2 * push.size());
        TensorCodec::Find(format)->EncodeWithFeedback(push, residual, scratch, bytes);
        push = scratch;
      }
      run.push_format = format;
      EXPECT_EQ(Train(run, true), want) << WireFormat_Name(format) << " " << n_push;
    }
  }
}

TEST_F(OnDeviceTest, OneVectorCrossesEachWayForEachFetchAndPush) {
  Train({.n_fetch = 10, .n_push = 10, .sgd_rate = 0.05}, true);
  EXPECT_EQ(vectors_in_, 3u);
  EXPECT_EQ(vectors_out_, 3u);
  Train({.replicas = 3, .n_fetch = 5, .n_push = 5, .sgd_rate = 0.05}, true);
  EXPECT_EQ(vectors_in_, 2u);
  EXPECT_EQ(vectors_out_, 2u);
}

TEST_F(OnDeviceTest, AnEvaluationInTheMiddleChangesNothing) {
  for (const uint32_t replicas : {1u, 3u}) {
    Training run{.replicas = replicas, .n_fetch = 7, .n_push = 7, .adagrad_rate = 0.05};
    const auto undisturbed = Train(run, true);
    run.evaluates = true;
    EXPECT_EQ(Train(run, true), undisturbed);
    EXPECT_EQ(Train(run, false), undisturbed);
  }
}

TEST_F(OnDeviceTest, AStepThatIsDroppedLeavesNothing) {
  for (const uint32_t replicas : {1u, 3u}) {
    for (const uint64_t nan_at : {0u, 6u, 7u}) {
      const Training run{.replicas = replicas,
                         .n_fetch = 4,
                         .n_push = 4,
                         .sgd_rate = 0.05,
                         .action = DivergencePolicy::SKIP,
                         .nan_at = nan_at};
      EXPECT_EQ(Train(run, true), Train(run, false)) << replicas << " at " << nan_at;
    }
  }
}

TEST_F(OnDeviceTest, ANonFiniteTensorIsNamed) {
  Train({.n_fetch = 4, .n_push = 4, .nan_at = 6}, true);
  EXPECT_TRUE(IsDivergedError(status_));
  EXPECT_THAT(std::string(status_.message()), HasSubstr("[3]"));
}

TEST_F(OnDeviceTest, AReplicaLostInTheMiddleLosesNoGradient) {
  for (const uint32_t broken : {1u, 2u}) {
    const Training run{.replicas = 3,
                       .n_fetch = 4,
                       .n_push = 4,
                       .sgd_rate = 0.05,
                       .fails_at = broken + 6,
                       .broken = broken};
    EXPECT_EQ(Train(run, true), Train(run, false)) << broken;
    EXPECT_OK(status_);
  }
}

TEST_F(OnDeviceTest, WithTheFirstReplicaTheSumIsLostAndTheSessionSaysSo) {
  Train({.replicas = 3, .n_fetch = 4, .n_push = 4, .fails_at = 6, .broken = 0}, true);
  EXPECT_TRUE(IsDeviceError(status_));
  EXPECT_THAT(std::string(status_.message()),
              ::testing::AllOf(HasSubstr("replica 0"), HasSubstr("illegal address")));
}

TEST_F(OnDeviceTest, TheHostDoesWhatTheDeviceHasNoRoomFor) {
  for (const uint32_t replicas : {1u, 3u}) {
    for (const uint32_t every : {1u, 4u}) {
      Training run{.replicas = replicas, .n_fetch = every, .n_push = every, .sgd_rate = 0.05};
      const auto with_room = Train(run, true);
      run.room = absl::ResourceExhaustedError("no room");
      EXPECT_EQ(Train(run, true), with_room);
    }
  }
}

TEST_F(OnDeviceTest, TheHostUpdatesWhatADeviceHasNoStepFor) {
  for (const uint32_t replicas : {1u, 3u}) {
    for (const uint32_t every : {1u, 4u}) {
      const Training run{.replicas = replicas,
                         .n_fetch = every,
                         .n_push = every,
                         .adagrad_rate = 0.05,
                         .statistics = {{0, 4}}};
      EXPECT_EQ(Train(run, true), Train(run, false)) << replicas << " every " << every;
    }
  }
}

}  // namespace
}  // namespace monsoon
