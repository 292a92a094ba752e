// A client that keeps its pushes, against real servers that are started anew: what comes
// out has the same bits as without the trouble.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/tensor_codec.h"
#include "common/model/tensor_slices.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Vector = std::vector<float>;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr uint64_t kStripes = 8;  // of each of two shards

Vector Gradient(uint64_t push, size_t size) {
  Vector gradient(size);
  for (size_t i = 0; i < size; ++i) {
    gradient[i] = 0.01f * static_cast<float>((i * 7 + push * 13) % 29) - 0.1f;
  }
  return gradient;
}

// A new one for each test.
std::string Folder() {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::replace(name.begin(), name.end(), '/', '_');
  const std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

struct Variant {
  Transport transport;
  WireFormat push_format;
};

class ReplayTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        shards_,
        TestShards::Start({.shards = 2, .transport = GetParam().transport, .state_dir = folder_}));
    ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
    client_ = Join(uint64_t{64} << 20);
  }

  std::unique_ptr<ParameterClient> Join(uint64_t keep_bytes, absl::Duration deadline = kPatience) {
    absl::StatusOr<ParameterClientOptions> options = shards_->OpenSession(job_, 0);
    EXPECT_OK(options);
    options->keep_bytes = keep_bytes;
    options->push_format = GetParam().push_format;
    options->top_k_share = GetParam().push_format == TOP_K ? 0.1 : 0;
    options->deadline = deadline;
    return *ParameterClient::Create(*std::move(options));
  }

  GradientView ViewOf(uint64_t push, const Vector& gradient) const {
    GradientView view(gradient);
    if (leaves_out_ && push % 3 == 0) {
      view.absent = {&all_, 1};
    }
    return view;
  }

  absl::StatusOr<ParameterClient::PushResult> Push() {
    ++pushes_;
    return client_->Push(ViewOf(pushes_, Gradient(pushes_, job_.map.size())), {});
  }
  void PushAll(int pushes) {
    for (int i = 0; i < pushes; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto result, Push());
      EXPECT_EQ(result.sequence, pushes_);
    }
  }

  // The coordinator's part: the session stays open, and the new epoch is named.
  RestoreShardJobReply Restore(uint32_t shard) {
    absl::StatusOr<RestoreShardJobReply> reply = shards_->Restore(SmallJob(), shard);
    EXPECT_OK(reply);
    return reply.value_or(RestoreShardJobReply());
  }
  void BringBack(uint32_t shard, uint64_t epoch) {
    client_->NameEpoch(shard, epoch);
    ASSERT_OK(client_->BringBack(kPatience));
    ASSERT_EQ(client_->away(), std::nullopt);
  }

  void Checkpoint() { ASSERT_OK(shards_->Checkpoint(job_.name, ++generation_)); }

  Vector Fetch() {
    Vector parameters(job_.map.size());
    EXPECT_OK(client_->Fetch(parameters, nullptr, nullptr));
    return parameters;
  }
  // What as many pushes give where nothing goes wrong.
  Vector Expected() {
    auto shards = *TestShards::Start({.shards = 2, .transport = GetParam().transport});
    const TestJob job = *shards->CreateJob(SmallJob());
    ParameterClientOptions options = *shards->OpenSession(job, 0);
    options.push_format = GetParam().push_format;
    options.top_k_share = GetParam().push_format == TOP_K ? 0.1 : 0;
    const auto client = *ParameterClient::Create(std::move(options));
    for (uint64_t push = 1; push <= pushes_; ++push) {
      EXPECT_OK(client->Push(ViewOf(push, Gradient(push, job.map.size())), {}));
    }
    Vector parameters(job.map.size());
    EXPECT_OK(client->Fetch(parameters, nullptr, nullptr));
    return parameters;
  }

  const std::string folder_ = Folder();
  std::unique_ptr<TestShards> shards_;
  TestJob job_;
  std::unique_ptr<ParameterClient> client_;
  uint64_t pushes_ = 0;
  uint64_t generation_ = 0;
  bool leaves_out_ = false;                 // each third push has no gradient of the only tensor
  const TensorSlice all_{0, {0, 64 * 64}};  // which that is
};

TEST_P(ReplayTest, APushThatIsSentAgainLeavesOutTheSameTensors) {
  leaves_out_ = true;
  PushAll(3);
  Checkpoint();
  PushAll(4);
  shards_->Stop(1);
  PushAll(4);
  ASSERT_OK(shards_->StartAgain(1));
  BringBack(1, Restore(1).shard_epoch());
  PushAll(2);
  EXPECT_EQ(Fetch(), Expected());
}

TEST_P(ReplayTest, PushesGoOnWhileAShardIsAwayAndAreSentAgain) {
  Fetch();  // maps, where that can be
  PushAll(5);
  EXPECT_EQ(client_->acknowledged(), 5u);
  EXPECT_EQ(client_->kept().limit_bytes, uint64_t{64} << 20);
  const uint64_t epoch = shards_->server(1)->shard_epoch();
  shards_->Stop(1);
  PushAll(5);
  EXPECT_EQ(client_->acknowledged(), 5u);
  ASSERT_NE(client_->away(), std::nullopt);
  EXPECT_THAT(*client_->away(), HasSubstr("ps/1"));
  // Nobody trains on what a shard that is away has left behind.
  Vector parameters(job_.map.size());
  FetchMarks marks;
  FetchStats stats;
  EXPECT_THAT(client_->Fetch(parameters, &marks, &stats),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ps/1")));
  EXPECT_FALSE(client_->FetchMapped(parameters, &marks, &stats));
  bool fetched = true;
  ASSERT_OK(client_->PushAndFetch(Gradient(++pushes_, parameters.size()), {}, parameters, &marks,
                                  &stats, &fetched));
  EXPECT_FALSE(fetched);

  ASSERT_OK(shards_->StartAgain(1));
  PushAll(1);  // it does not know the job yet, which ends nothing
  EXPECT_EQ(client_->acknowledged(), 5u);
  const RestoreShardJobReply reply = Restore(1);
  EXPECT_EQ(reply.generation(), 0u);
  EXPECT_GT(reply.shard_epoch(), epoch);
  PushAll(1);  // nor what nobody has named
  EXPECT_EQ(client_->acknowledged(), 5u);
  EXPECT_THAT(client_->Fetch(parameters, &marks, &stats),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ps/1")));
  BringBack(1, reply.shard_epoch());
  EXPECT_EQ(client_->acknowledged(), pushes_);
  EXPECT_EQ(client_->kept().replayed, 5 * kStripes);  // the others were sent once
  EXPECT_EQ(Fetch(), Expected());
  PushAll(2);
  EXPECT_EQ(Fetch(), Expected());
}

TEST_P(ReplayTest, WhatThePusherLeavesUntouchedIsKeptWhereItIs) {
  std::vector<std::shared_ptr<Vector>> gradients;
  const auto push = [&](int pushes) {
    for (int i = 0; i < pushes; ++i) {
      gradients.push_back(std::make_shared<Vector>(Gradient(++pushes_, job_.map.size())));
      ASSERT_OK(client_->Push(GradientView(*gradients.back(), gradients.back()), {}));
    }
  };
  push(3);
  const bool as_it_is = GetParam().push_format == FLOAT32;
  EXPECT_EQ(client_->kept().copied_bytes == 0, as_it_is);
  EXPECT_GT(client_->kept().bytes, 0u);
  for (const auto& gradient : gradients) {
    EXPECT_EQ(gradient.use_count() > 1, as_it_is);
  }
  ASSERT_OK(shards_->Restart(1));
  push(2);
  BringBack(1, Restore(1).shard_epoch());
  EXPECT_EQ(Fetch(), Expected());
  Checkpoint();
  Checkpoint();
  push(1);  // learns what is durable
  for (size_t i = 0; i + 1 < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i].use_count(), 1) << "push " << i + 1;
  }
  EXPECT_EQ(Fetch(), Expected());
}

TEST_P(ReplayTest, WhatThePusherEncodesIsWhatItWouldBeHere) {
  const WireFormat format = GetParam().push_format;
  if (format != BFLOAT16 && format != FLOAT16) {
    GTEST_SKIP() << "pushers encode halves";
  }
  Vector residual(job_.map.size());
  Vector scratch(job_.map.size());
  const auto push = [&](int pushes) {
    for (int i = 0; i < pushes; ++i) {
      auto bytes = std::make_shared<std::vector<std::byte>>(2 * job_.map.size());
      TensorCodec::Find(format)->EncodeWithFeedback(Gradient(++pushes_, job_.map.size()), residual,
                                                    scratch, *bytes);
      ASSERT_OK(client_->Push(GradientView::Encoded(*bytes, bytes), {}));
    }
  };
  push(3);
  EXPECT_EQ(client_->kept().copied_bytes, 0u);
  ASSERT_OK(shards_->Restart(0));
  push(2);
  BringBack(0, Restore(0).shard_epoch());
  EXPECT_EQ(Fetch(), Expected());
  std::vector<std::byte> infinite(2 * job_.map.size());
  infinite[11] = std::byte{0x7f};
  infinite[10] = std::byte{0x80};
  EXPECT_THAT(client_->Push(GradientView::Encoded(infinite, nullptr), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("flat index 5")));
}

TEST_P(ReplayTest, OnlyWhatIsNotDurableIsSentAgain) {
  PushAll(4);
  const uint64_t bytes = client_->kept().bytes;
  EXPECT_GT(bytes, 0u);
  Checkpoint();
  PushAll(2);
  EXPECT_EQ(client_->kept().bytes, bytes / 4 * 6);  // one generation may be damaged
  Checkpoint();
  PushAll(1);
  EXPECT_EQ(client_->kept().bytes, bytes / 4 * 3);  // the older one has four
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_OK(shards_->Restart(0));
    const RestoreShardJobReply reply = Restore(0);
    EXPECT_EQ(reply.generation(), 2u);
    BringBack(0, reply.shard_epoch());
    EXPECT_EQ(Fetch(), Expected());
    EXPECT_EQ(client_->kept().replayed, (restart + 1) * kStripes);
  }
  // Both at once, with a push in between.
  ASSERT_OK(shards_->Restart(0));
  ASSERT_OK(shards_->Restart(1));
  PushAll(1);
  client_->NameEpoch(0, Restore(0).shard_epoch());
  BringBack(1, Restore(1).shard_epoch());
  EXPECT_EQ(Fetch(), Expected());
}

// It lacks what was pushed since its generation, and who fetches has not heard of it.
TEST_P(ReplayTest, WhatALifeSendsThatNobodyHasNamedIsNotUsed) {
  PushAll(4);
  Checkpoint();
  PushAll(1);
  ASSERT_OK(shards_->Restart(1));
  const RestoreShardJobReply reply = Restore(1);
  EXPECT_EQ(reply.generation(), 1u);
  ASSERT_EQ(client_->away(), std::nullopt);
  Vector parameters(job_.map.size());
  FetchMarks marks;
  FetchStats stats;
  EXPECT_FALSE(client_->FetchMapped(parameters, &marks, &stats));
  EXPECT_THAT(client_->Fetch(parameters, &marks, &stats),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("started anew")));
  BringBack(1, reply.shard_epoch());
  EXPECT_EQ(Fetch(), Expected());
}

TEST_P(ReplayTest, AFullWindowWaitsForACheckpointAndLosesNothing) {
  PushAll(1);
  const uint64_t push_bytes = client_->kept().bytes;
  client_.reset();
  // A session of its own, of which the window takes three.
  shards_.reset();
  ASSERT_OK_AND_ASSIGN(shards_, TestShards::Start({.shards = 2,
                                                   .transport = GetParam().transport,
                                                   .state_dir = folder_ + "/full"}));
  ASSERT_OK_AND_ASSIGN(job_, shards_->CreateJob(SmallJob()));
  client_ = Join(3 * push_bytes, absl::Milliseconds(200));
  pushes_ = 0;
  EXPECT_FALSE(client_->kept().wants_checkpoint);
  PushAll(3);
  EXPECT_TRUE(client_->kept().wants_checkpoint);
  EXPECT_THAT(Push(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("checkpoint"), HasSubstr("replay_window_mib"))));
  Checkpoint();
  Checkpoint();
  --pushes_;
  PushAll(3);  // the one that had no room first
  EXPECT_EQ(Fetch(), Expected());
}

TEST_P(ReplayTest, WhoLeavesWaitsForTheDisk) {
  EXPECT_THAT(*client_->AwaitDurable(kPatience), IsEmpty());  // nothing was pushed
  PushAll(3);
  EXPECT_THAT(client_->AwaitDurable(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("ps/0")));
  EXPECT_TRUE(client_->kept().wants_checkpoint);
  Checkpoint();  // one is enough for that
  ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> first, client_->AwaitDurable(kPatience));
  EXPECT_THAT(first, SizeIs(2));
  Checkpoint();
  ASSERT_OK_AND_ASSIGN(const std::vector<uint64_t> second, client_->AwaitDurable(kPatience));
  EXPECT_THAT(second, Each(first[0] + 1));
  EXPECT_FALSE(client_->kept().wants_checkpoint);
}

TEST_P(ReplayTest, ASessionThatIsClosedIsLostAsEver) {
  PushAll(1);
  SessionKey session;
  session.set_job(job_.name);
  session.set_incarnation(1);
  ASSERT_OK(shards_->control(0)->CloseSession(session));
  const auto result = Push();
  EXPECT_TRUE(IsSessionLost(result.status())) << result.status();
}

INSTANTIATE_TEST_SUITE_P(
    Transports, ReplayTest,
    ::testing::Values(Variant{Transport::GRPC, FLOAT32}, Variant{Transport::SHARED_MEMORY, FLOAT32},
                      Variant{Transport::SHARED_MEMORY, BFLOAT16},
                      Variant{Transport::GRPC, FLOAT16}, Variant{Transport::GRPC, TOP_K}),
    [](const auto& info) {
      return NameOf(info.param.transport) + (info.param.push_format == FLOAT32
                                                 ? ""
                                                 : "_" + WireFormat_Name(info.param.push_format));
    });

}  // namespace
}  // namespace monsoon
