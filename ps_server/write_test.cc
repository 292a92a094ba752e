// The frames of a write, as a shard gets them (submit --init and --resume).
#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/xxh3.h"
#include "common/model/shard_map.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame_listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/client/parameter_client.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Vector = std::vector<float>;

struct ReceivedWrite {
  WriteRequest request;
  Vector values;
};

// Keeps the writes that come.
class RecordingHandler final : public FrameHandler {
 public:
  void Register(FrameKinds* kinds) override {
    kinds->Add(DataHeader::kWrite,
               [this](DataHeader* request, ChunkCursor* payload,
                      FrameScratch*) -> absl::StatusOr<ServedFrame> {
                 ReceivedWrite received{std::move(*request->mutable_write()), {}};
                 received.values.resize(payload->remaining() / sizeof(float));
                 payload->Copy(payload->remaining(), received.values.data());
                 MutexLock lock(&mutex_);
                 if (!refusal_.ok()) {
                   return refusal_;
                 }
                 ServedFrame served;
                 served.first.emplace();
                 served.first->header.mutable_write_reply()->set_stripes(
                     static_cast<uint32_t>(received.request.record_size()));
                 received_.push_back(std::move(received));
                 return served;
               });
  }

  std::vector<ReceivedWrite> Take() {
    MutexLock lock(&mutex_);
    return std::exchange(received_, {});
  }
  void Refuse(absl::Status status) {
    MutexLock lock(&mutex_);
    refusal_ = std::move(status);
  }

 private:
  Mutex mutex_;
  std::vector<ReceivedWrite> received_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
};

class WriteTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kShards = 2;
  static constexpr uint64_t kStripeBytes = 1 << 19;  // two fit a frame
  static constexpr uint64_t kFloats = (5 * kStripeBytes + 256) / sizeof(float);

  void SetUp() override {
    options_ = {.job = "lenet-2",
                .job_term = 77,
                .layout_hash = 12345,
                .map = *ShardMap::Create(kFloats, kShards, kStripeBytes),
                .deadline = absl::Seconds(30),
                .read_only = true,
                .transport = Transport::GRPC};
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      listeners_.push_back(std::make_unique<FrameListener>(
          &handlers_[shard], FrameListenerOptions{.shared_memory = false}));
      options_.addresses.push_back(testing::UniqueSocketAddress());
      ASSERT_OK(listeners_[shard]->Listen({.address = options_.addresses[shard]}, {}));
    }
    ASSERT_OK_AND_ASSIGN(client_, ParameterClient::Create(options_));
    values_.resize(kFloats);
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(i) * 0.5f;
    }
  }

  // Puts the frames of both shards together; each stripe came once.
  Vector Assemble(const std::vector<std::vector<ReceivedWrite>>& writes) {
    Vector vector(kFloats, -1.0f);
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      uint32_t next = 0;
      for (const ReceivedWrite& write : writes[shard]) {
        EXPECT_EQ(write.request.job(), "lenet-2");
        EXPECT_EQ(write.request.job_term(), 77u);
        EXPECT_EQ(write.request.layout_hash(), 12345u);
        size_t at = 0;
        for (const FetchRecord& record : write.request.record()) {
          const Slice slice = options_.map.stripe(shard, record.stripe());
          EXPECT_EQ(record.stripe(), next++);
          EXPECT_EQ(record.length(), slice.size() * sizeof(float));
          std::copy_n(write.values.begin() + static_cast<ptrdiff_t>(at), slice.size(),
                      vector.begin() + static_cast<ptrdiff_t>(slice.begin));
          at += slice.size();
        }
        EXPECT_EQ(at, write.values.size());
      }
      EXPECT_EQ(next, options_.map.stripes(shard));
    }
    return vector;
  }
  std::vector<std::vector<ReceivedWrite>> Received() {
    return {handlers_[0].Take(), handlers_[1].Take()};
  }

  RecordingHandler handlers_[kShards];
  std::vector<std::unique_ptr<FrameListener>> listeners_;
  ParameterClientOptions options_;
  std::unique_ptr<ParameterClient> client_;
  Vector values_;
};

TEST_F(WriteTest, InitialParametersLeaveVersionsAlone) {
  ASSERT_OK(client_->Write(values_));
  const auto writes = Received();
  EXPECT_EQ(Assemble(writes), values_);
  EXPECT_GT(writes[0].size(), 1u);
  for (const auto& shard : writes) {
    for (const ReceivedWrite& write : shard) {
      EXPECT_EQ(write.request.slot(), 0u);
      EXPECT_FALSE(write.request.set_version());
      for (const FetchRecord& record : write.request.record()) {
        EXPECT_EQ(record.version(), 0u);
      }
    }
  }
}

TEST_F(WriteTest, AResumedJobGetsStateAndVersions) {
  ParameterClient::WriteOptions options;
  options.slot = 1;
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    options.versions.emplace_back();
    for (uint32_t stripe = 0; stripe < options_.map.stripes(shard); ++stripe) {
      options.versions[shard].push_back(100 * shard + stripe);
    }
  }
  ASSERT_OK(client_->Write(values_, options));
  auto writes = Received();
  EXPECT_EQ(Assemble(writes), values_);
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    for (const ReceivedWrite& write : writes[shard]) {
      EXPECT_EQ(write.request.slot(), 1u);
      EXPECT_TRUE(write.request.set_version());
      for (const FetchRecord& record : write.request.record()) {
        EXPECT_EQ(record.version(), 100 * shard + record.stripe());
      }
    }
  }
  // Nothing of it stays for the next one.
  ASSERT_OK(client_->Write(values_));
  writes = Received();
  EXPECT_EQ(Assemble(writes), values_);
  EXPECT_EQ(writes[1][0].request.slot(), 0u);
  EXPECT_FALSE(writes[1][0].request.set_version());
  EXPECT_EQ(writes[1][0].request.record(0).version(), 0u);
}

TEST_F(WriteTest, ASealHasTheChecksumOfEachSlice) {
  ParameterClient::WriteOptions options;
  options.writer = 7;
  ASSERT_OK(client_->Write(values_, options));
  for (const std::vector<ReceivedWrite>& shard : Received()) {
    for (const ReceivedWrite& write : shard) {
      EXPECT_EQ(write.request.writer(), 7u);
      EXPECT_FALSE(write.request.has_seal());
    }
  }
  ASSERT_OK(client_->Seal(values_, 8));
  const auto seals = Received();
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    ASSERT_EQ(seals[shard].size(), 1u);
    const WriteRequest& request = seals[shard][0].request;
    EXPECT_EQ(request.job(), "lenet-2");
    EXPECT_EQ(request.job_term(), 77u);
    EXPECT_EQ(request.layout_hash(), 12345u);
    EXPECT_EQ(request.writer(), 8u);
    EXPECT_EQ(request.record_size(), 0);
    const Slice slice = options_.map.shard(shard);
    EXPECT_EQ(request.seal().checksum(),
              Xxh3::Of(std::as_bytes(std::span(values_).subspan(slice.begin, slice.size()))));
  }
  // What follows a seal is a write again.
  ASSERT_OK(client_->Write(values_));
  for (const std::vector<ReceivedWrite>& shard : Received()) {
    EXPECT_EQ(shard[0].request.writer(), 0u);
    EXPECT_FALSE(shard[0].request.has_seal());
  }
}

// Of a job whose shards only store.
TEST_F(WriteTest, ASessionsWriteNamesItAndIsSealedOverAllSlots) {
  options_.read_only = false;
  options_.worker = 4;
  options_.incarnation = 2;
  options_.shard_epochs = {1, 1};
  ASSERT_OK_AND_ASSIGN(client_, ParameterClient::Create(options_));
  const auto expect_session = [](const WriteRequest& request) {
    EXPECT_EQ(request.job(), "");
    EXPECT_EQ(request.session().job(), "lenet-2");
    EXPECT_EQ(request.session().job_term(), 77u);
    EXPECT_EQ(request.session().worker(), 4u);
    EXPECT_EQ(request.session().incarnation(), 2u);
    EXPECT_EQ(request.layout_hash(), 12345u);
    EXPECT_EQ(request.writer(), 9u);
  };
  ASSERT_OK(client_->WriteState(2, values_, /*version=*/33, /*write=*/9));
  const auto writes = Received();
  for (const std::vector<ReceivedWrite>& shard : writes) {
    EXPECT_GT(shard.size(), 1u);
    for (const ReceivedWrite& write : shard) {
      expect_session(write.request);
      EXPECT_EQ(write.request.slot(), 2u);
      EXPECT_TRUE(write.request.set_version());
      EXPECT_FALSE(write.request.has_seal());
      for (const FetchRecord& record : write.request.record()) {
        EXPECT_EQ(record.version(), 33u);
      }
    }
  }
  Vector state(values_.rbegin(), values_.rend());
  ASSERT_OK(client_->SealState({{values_, state}}, 9));
  const auto seals = Received();
  for (uint32_t shard = 0; shard < kShards; ++shard) {
    ASSERT_EQ(seals[shard].size(), 1u);
    expect_session(seals[shard][0].request);
    EXPECT_EQ(seals[shard][0].request.record_size(), 0);
    const Slice slice = options_.map.shard(shard);
    Xxh3 hash;
    hash.Add(std::as_bytes(std::span(values_).subspan(slice.begin, slice.size())));
    hash.Add(std::as_bytes(std::span(state).subspan(slice.begin, slice.size())));
    EXPECT_EQ(seals[shard][0].request.seal().checksum(), hash.Digest());
  }
  // Nothing of it stays for an ordinary write.
  ASSERT_OK(client_->Write(values_));
  EXPECT_FALSE(Received()[0][0].request.has_session());
}

TEST_F(WriteTest, WhatCannotBeRightIsNotSent) {
  ParameterClient::WriteOptions options;
  options.versions = {{1}};
  EXPECT_THAT(client_->Write(values_, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("versions")));
  options.versions = {std::vector<uint64_t>(options_.map.stripes(0)), {}};
  EXPECT_THAT(client_->Write(values_, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("versions")));
  values_[17] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(client_->Write(values_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("flat index 17")));
  options = {.slot = 1};
  EXPECT_THAT(client_->Write(values_, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("optimizer's state"), HasSubstr("flat index 17"))));
  EXPECT_TRUE(handlers_[0].Take().empty());
  EXPECT_TRUE(handlers_[1].Take().empty());
}

TEST_F(WriteTest, AShardsRefusalNamesIt) {
  handlers_[1].Refuse(absl::FailedPreconditionError("job lenet-2 has had a session"));
  EXPECT_THAT(client_->Write(values_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ps/1"), HasSubstr("has had a session"))));
}

}  // namespace
}  // namespace monsoon
