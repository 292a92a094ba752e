// A shard with a job of four stripes and an open session, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/memory/aligned_floats.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

using Vector = std::vector<float>;

inline constexpr uint64_t kEpoch = 77;
inline constexpr size_t kStripe = 64;  // floats
inline constexpr uint32_t kStripes = 4;
inline constexpr size_t kFloats = kStripe * kStripes;

// One shard with a job of four stripes and an open session of worker 1.
class ShardTest : public ::testing::Test {
 protected:
  ShardTest() {
    request_.set_job("job-1");
    request_.mutable_model()->set_name("tiny");
    request_.mutable_model()->add_input_shape(16);
    Dense* dense = request_.mutable_model()->add_layer()->mutable_dense();
    dense->set_units(16);
    dense->set_no_bias(true);
    request_.set_seed(9);
    Adagrad* adagrad = request_.mutable_optimizer()->mutable_adagrad();
    adagrad->set_rate(0.5);
    adagrad->set_epsilon(1.0);
    request_.set_shards(1);
    request_.set_max_stripe_bytes(kStripe * 4);
    request_.set_layout_hash(ParameterLayout::Create(request_.model())->Hash());
    session_.set_job("job-1");
    session_.set_worker(1);
    session_.set_incarnation(1);
  }

  void SetUp() override {
    ASSERT_OK(shard_.CreateJob(request_));
    ASSERT_OK(shard_.OpenSession(session_));
  }

  PushRequest MakePush(uint32_t stripe, uint64_t sequence) {
    PushRequest request;
    *request.mutable_session() = session_;
    request.set_layout_hash(request_.layout_hash());
    AddRecord(&request, stripe, sequence);
    return request;
  }

  static PushRecord* AddRecord(PushRequest* request, uint32_t stripe, uint64_t sequence) {
    PushRecord* record = request->add_record();
    record->set_stripe(stripe);
    record->set_sequence(sequence);
    record->set_shard_epoch(kEpoch);
    record->set_length(kStripe * sizeof(float));
    return record;
  }

  absl::StatusOr<PushReply> Push(const PushRequest& request, const Vector& payload,
                                 size_t chunk_bytes = SIZE_MAX) {
    const auto bytes = std::as_bytes(std::span(payload));
    std::vector<ByteChunk> chunks;
    for (size_t begin = 0; begin < bytes.size(); begin += chunk_bytes) {
      chunks.push_back(bytes.subspan(begin, std::min(chunk_bytes, bytes.size() - begin)));
    }
    ChunkCursor cursor(chunks);
    return shard_.Push(request, &cursor, &scratch_);
  }

  PushVerdict PushOne(const PushRequest& request, const Vector& payload) {
    const absl::StatusOr<PushReply> reply = Push(request, payload);
    EXPECT_OK(reply);
    return reply.ok() && reply->verdict_size() == 1 ? reply->verdict(0) : PushVerdict();
  }

  std::string Snapshot(const std::string& job = "job-1") {
    return shard_.FindJob(job)->stripes()->Snapshot();
  }

  ShardJobStatus Status() { return shard_.GetStatus({})->job(0); }

  Vector Parameters() {
    AlignedFloats out(kFloats);
    EXPECT_OK(shard_.FindJob("job-1")->fetches()->CopyStripes(std::nullopt, 0, kStripes, nullptr,
                                                              FLOAT32, &out));
    return Vector(out.span().begin(), out.span().end());
  }

  Shard shard_{{"test", 2, kEpoch, /*memory_limit_bytes=*/1 << 20}};
  CreateShardJobRequest request_;
  SessionKey session_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

}  // namespace monsoon
