// 256 workers and one parameter server with the default settings: all of them train
// at once, each with its two streams open, be they on its host or not.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/process/open_files.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/ps_process.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

constexpr uint32_t kWorkers = 256;
constexpr uint32_t kThreads = 32;
constexpr int kSteps = 4;

struct Case {
  Transport transport;
  uint32_t inputs;  // and as many units: a slice of inputs^2 floats
};

class ManyWorkersTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    RaiseOpenFileLimit();  // this process has all the workers' ends
    ASSERT_OK_AND_ASSIGN(server_, StartPsProcess(std::getenv("TEST_TMPDIR"), "", {}));
    control_ = ShardControl::Create(server_->address, absl::Seconds(60));
    request_.set_job("many-1");
    *request_.mutable_model() = TestModel(GetParam().inputs, GetParam().inputs);
    *request_.mutable_optimizer() = TestSgd(0.5);
    request_.set_shards(1);
    request_.set_max_stripe_bytes(kMaxStripeBytes);
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(request_.model()));
    request_.set_layout_hash(layout.Hash());
    ASSERT_OK_AND_ASSIGN(map_, ShardMap::Create(layout.size(), 1, kMaxStripeBytes));
    ASSERT_OK(control_->CreateJob(request_));
  }

  absl::StatusOr<std::unique_ptr<ParameterClient>> Join(uint32_t worker) {
    ParameterClientOptions options;
    options.job = request_.job();
    options.worker = worker;
    options.incarnation = 1;
    options.layout_hash = request_.layout_hash();
    options.map = map_;
    options.addresses = {server_->address};
    options.deadline = absl::Seconds(60);
    options.transport = GetParam().transport;
    SessionKey session;
    session.set_job(options.job);
    session.set_worker(worker);
    session.set_incarnation(1);
    const absl::StatusOr<OpenSessionReply> reply = control_->OpenSession(session);
    if (!reply.ok()) {
      return reply.status();
    }
    options.shard_epochs = {reply->shard_epoch()};
    return ParameterClient::Create(std::move(options));
  }

  // One step of every kThreads-th worker; false after an error.
  bool StepAll(uint32_t thread) {
    std::vector<float> parameters(map_.size());
    for (uint32_t worker = thread; worker < kWorkers; worker += kThreads) {
      FetchMarks marks;
      const absl::Status fetched = workers_[worker]->Fetch(parameters, &marks, nullptr);
      EXPECT_OK(fetched) << "worker " << worker;
      std::vector<float> gradient(map_.size(), 1.0f);
      const auto pushed = workers_[worker]->Push(gradient, marks);
      EXPECT_OK(pushed) << "worker " << worker;
      if (!fetched.ok() || !pushed.ok()) {
        return false;
      }
      EXPECT_EQ(pushed->refused_invalid, 0u);
    }
    return true;
  }

  std::optional<PsProcess> server_;
  std::unique_ptr<ShardControl> control_;
  CreateShardJobRequest request_;
  ShardMap map_;
  std::vector<std::unique_ptr<ParameterClient>> workers_;
};

TEST_P(ManyWorkersTest, AllTrain) {
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    ASSERT_OK_AND_ASSIGN(workers_.emplace_back(), Join(worker));
  }
  std::atomic<uint32_t> failed{0};
  {
    std::vector<std::jthread> threads;
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int step = 0; step < kSteps && failed == 0; ++step) {
          failed += StepAll(thread) ? 0 : 1;
        }
      });
    }
  }
  ASSERT_EQ(failed, 0u);
  // Each push counts once, whatever gave way to whom.
  ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, control_->GetStatus(""));
  EXPECT_EQ(status.job(0).version_min(), kWorkers * kSteps);
  EXPECT_EQ(status.job(0).version_max(), kWorkers * kSteps);
  EXPECT_EQ(status.job(0).refused(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Transports, ManyWorkersTest,
                         ::testing::Values(Case{Transport::GRPC, 64}, Case{Transport::GRPC, 1024},
                                           Case{Transport::AUTO, 64}, Case{Transport::AUTO, 1024}),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return NameOf(info.param.transport) +
                                  (info.param.inputs < 1024 ? "Small" : "FourMebibytes");
                         });

}  // namespace
}  // namespace monsoon
