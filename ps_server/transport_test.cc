// The choice between shared memory and gRPC, and what clients can do to the
// shared-memory server.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/protocol.h"
#include "common/transport/shm/bell.h"
#include "common/transport/shm/byte_ring.h"
#include "common/transport/shm/frame_channel.h"
#include "common/transport/shm/memory_file.h"
#include "common/transport/shm/socket_file.h"
#include "common/transport/shm/unix_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Vector = std::vector<float>;

constexpr absl::Duration kDeadline = absl::Seconds(20);

ShardStatusReply StatusOf(TestShards* shards, uint32_t shard) {
  const absl::StatusOr<ShardStatusReply> reply = shards->control(shard)->GetStatus("");
  EXPECT_OK(reply);
  return reply.value_or(ShardStatusReply());
}

TEST(TransportTest, SharedMemoryIsChosenAndTold) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  EXPECT_THAT(client->transports(), ElementsAre("", ""));
  Vector parameters(job.map.size());
  FetchStats stats;
  ASSERT_OK(client->Fetch(parameters, nullptr, &stats));
  EXPECT_EQ(stats.rpcs, 0u);
  EXPECT_THAT(client->transports(), ElementsAre("shared memory", "shared memory"));
}

TEST(TransportTest, WithoutAnOfferItIsGrpc) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1, .shared_memory = false}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, shards->OpenSession(job, 0));
  ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
  Vector parameters(job.map.size(), 1.0f);
  ASSERT_OK(client->Push(parameters, {}));
  ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  EXPECT_THAT(client->transports(),
              ElementsAre(AllOf(HasSubstr("gRPC"), HasSubstr("does not offer"))));
  options.transport = Transport::SHARED_MEMORY;
  ASSERT_OK_AND_ASSIGN(client, ParameterClient::Create(options));
  EXPECT_THAT(client->Fetch(parameters, nullptr, nullptr),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("ps/0"), HasSubstr("shared memory"))));
}

TEST(TransportTest, TheEnvironmentMayChoose) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  setenv("MONSOON_TRANSPORT", "grpc", 1);
  ASSERT_OK_AND_ASSIGN(auto client, shards->Reader(job));
  setenv("MONSOON_TRANSPORT", "smoke signals", 1);
  EXPECT_THAT(shards->Reader(job).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("smoke signals")));
  unsetenv("MONSOON_TRANSPORT");
  Vector parameters(job.map.size());
  ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  EXPECT_THAT(client->transports(), ElementsAre("gRPC (as asked)"));
}

// Some shards here, some elsewhere.
TEST(TransportTest, BothAtOnceGiveTheSameBits) {
  ASSERT_OK_AND_ASSIGN(auto here, TestShards::Start({.shards = 4}));
  ASSERT_OK_AND_ASSIGN(auto there, TestShards::Start({.shards = 4, .shared_memory = false}));
  Vector results[2];
  for (const bool mixed : {false, true}) {
    TestJobOptions job_options = SmallJob();
    job_options.name = mixed ? "mixed-1" : "here-1";
    ASSERT_OK_AND_ASSIGN(const TestJob job, here->CreateJob(job_options));
    ASSERT_OK_AND_ASSIGN(ParameterClientOptions options, here->OpenSession(job, 0));
    if (mixed) {
      ASSERT_OK(there->CreateJob(job_options));
      ASSERT_OK_AND_ASSIGN(const ParameterClientOptions others, there->OpenSession(job, 0));
      for (uint32_t shard : {1u, 2u}) {
        options.addresses[shard] = others.addresses[shard];
        options.shard_epochs[shard] = others.shard_epochs[shard];
      }
    }
    ASSERT_OK_AND_ASSIGN(auto client, ParameterClient::Create(options));
    Vector& parameters = results[mixed ? 1 : 0];
    parameters.resize(job.map.size());
    for (int step = 0; step < 10; ++step) {
      FetchMarks marks;
      ASSERT_OK(client->Fetch(parameters, &marks, nullptr));
      EXPECT_EQ(marks.shard[1][0].applied_sequence, static_cast<uint64_t>(step));
      ASSERT_OK_AND_ASSIGN(const auto pushed, client->Push(parameters, marks));
      EXPECT_EQ(pushed.staleness, 0);
    }
    ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(TransportTest, ADeletedJobAndAClosedSessionEndMappedFetches) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  ASSERT_OK_AND_ASSIGN(auto reader, shards->Reader(job));
  Vector parameters(job.map.size());
  ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  ASSERT_OK(reader->Fetch(parameters, nullptr, nullptr));
  // A newer incarnation closes the session.
  ASSERT_OK_AND_ASSIGN(auto newer, shards->Join(job, 0, 2));
  EXPECT_TRUE(IsSessionLost(client->Fetch(parameters, nullptr, nullptr)));
  ASSERT_OK(newer->Fetch(parameters, nullptr, nullptr));
  ASSERT_OK(reader->Fetch(parameters, nullptr, nullptr));
  ASSERT_OK(shards->control(1)->DeleteJob(job.name));
  EXPECT_TRUE(IsSessionLost(newer->Fetch(parameters, nullptr, nullptr)));
  EXPECT_THAT(reader->Fetch(parameters, nullptr, nullptr),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("ps/1")));
}

TEST(TransportTest, WhatClientsReadIsCountedAlsoWhenTheyAreGone) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  ASSERT_OK_AND_ASSIGN(auto reader, shards->Reader(job));
  Vector parameters(job.map.size());
  ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  ASSERT_OK(reader->Fetch(parameters, nullptr, nullptr));
  reader.reset();
  ASSERT_OK(client->Fetch(parameters, nullptr, nullptr));
  EXPECT_EQ(StatusOf(shards.get(), 0).job(0).fetched_stripes(), 3u * 16);
  EXPECT_EQ(StatusOf(shards.get(), 0).job(0).bytes_fetched(), 3u * 4096 * 4);
}

// A client by hand.
struct RawClient {
  UniqueFd socket;
  MemoryMapping bell, memory;
};

absl::StatusOr<RawClient> Hello(const SharedMemoryOffer& offer, uint32_t protocol_version) {
  RawClient client;
  ASSIGN_OR_RETURN(client.socket, ConnectToOffer(offer));
  ASSIGN_OR_RETURN(const MemoryFile bell, MemoryFile::Create("bell", sizeof(Bell)));
  ASSIGN_OR_RETURN(client.bell, bell.Map(MemoryFile::Access::kReadWrite));
  SharedMemoryRequest request;
  request.mutable_hello()->set_protocol_version(protocol_version);
  const int fd = bell.fd();
  RETURN_IF_ERROR(SendSocketMessage(client.socket.get(), request.SerializeAsString(), {&fd, 1}));
  ASSIGN_OR_RETURN(SocketMessage message, ReceiveSocketMessage(client.socket.get(), kDeadline));
  SharedMemoryReply reply;
  if (!reply.ParseFromString(message.bytes)) {
    return absl::InternalError("no reply");
  }
  RETURN_IF_ERROR(absl::Status(static_cast<absl::StatusCode>(reply.code()), reply.message()));
  ASSIGN_OR_RETURN(const MemoryFile file,
                   MemoryFile::Adopt(std::move(message.fds.at(0)), FrameChannel::kMemoryBytes));
  ASSIGN_OR_RETURN(client.memory, file.Map(MemoryFile::Access::kReadWrite));
  return client;
}

// Pushes `gradient` as it is, whatever it holds, and waits for the verdicts.
absl::StatusOr<PushReply> PushByHand(const RawClient& client, FrameChannel* channel,
                                     const ParameterClientOptions& options, uint64_t sequence,
                                     const Vector& gradient) {
  DataHeader header;
  PushRequest* const push = header.mutable_push();
  push->mutable_session()->set_job(options.job);
  push->mutable_session()->set_worker(options.worker);
  push->mutable_session()->set_incarnation(options.incarnation);
  push->set_layout_hash(options.layout_hash);
  for (uint32_t stripe = 0; stripe < options.map.stripes(0); ++stripe) {
    PushRecord* const record = push->add_record();
    record->set_stripe(stripe);
    record->set_sequence(sequence);
    record->set_shard_epoch(options.shard_epochs[0]);
    record->set_length(static_cast<uint32_t>(options.map.stripe(0, stripe).size() * sizeof(float)));
  }
  const std::string head = EncodeFrameHead(header);
  const ByteChunk parts[] = {std::as_bytes(std::span(head)), std::as_bytes(std::span(gradient))};
  channel->sender()->Begin(parts);
  RETURN_IF_ERROR(channel->sender()->Continue());
  absl::StatusOr<bool> answered = false;
  WaitForBell(reinterpret_cast<Bell*>(client.bell.data()), kDeadline, [&] {
    answered = channel->receiver()->Continue();
    return !answered.ok() || *answered;
  });
  RETURN_IF_ERROR(answered.status());
  const ByteChunk frame = channel->receiver()->frame();
  ChunkCursor cursor(std::span<const ByteChunk>(&frame, 1));
  ASSIGN_OR_RETURN(const DataHeader answer, DecodeFrameHead(&cursor));
  return answer.push_reply();
}

// Whatever a client has looked at: the shard looks itself, at bytes that it alone has.
TEST(SharedMemoryServerTest, AValueThatIsNotFiniteIsRefusedInItsStripe) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(const ParameterClientOptions options, shards->OpenSession(job, 0));
  ASSERT_OK_AND_ASSIGN(const RawClient client,
                       Hello(StatusOf(shards.get(), 0).shared_memory(), kProtocolVersion));
  FrameChannel channel(FrameChannel::Side::kClient, client.memory.data(),
                       reinterpret_cast<Bell*>(client.bell.data()));
  constexpr size_t kPlaces[] = {0, 255, 256, 2000, 4095};
  uint64_t sequence = 0;
  for (const size_t place : kPlaces) {
    Vector gradient(job.map.size(), 1.0f);
    gradient[place] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_OK_AND_ASSIGN(const PushReply reply,
                         PushByHand(client, &channel, options, ++sequence, gradient));
    ASSERT_EQ(reply.verdict_size(), 16);
    for (int stripe = 0; stripe < 16; ++stripe) {
      EXPECT_EQ(reply.verdict(stripe).verdict(),
                stripe == static_cast<int>(place / 256) ? REFUSED_INVALID : APPLIED)
          << place << ", stripe " << stripe;
    }
  }
  ASSERT_OK_AND_ASSIGN(const PushReply reply, PushByHand(client, &channel, options, ++sequence,
                                                         Vector(job.map.size(), 1.0f)));
  ASSERT_EQ(reply.verdict_size(), 16);
  EXPECT_EQ(reply.verdict(0).verdict(), APPLIED);
  EXPECT_EQ(reply.verdict(0).version(), 6u - 2);  // two of the places are in its stripe
}

TEST(SharedMemoryServerTest, BadGreetingsAreRefused) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1}));
  const SharedMemoryOffer offer = StatusOf(shards.get(), 0).shared_memory();
  EXPECT_THAT(Hello(offer, kProtocolVersion + 1).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("protocol")));
  ASSERT_OK_AND_ASSIGN(const UniqueFd socket, ConnectToOffer(offer));
  ASSERT_OK(SendSocketMessage(socket.get(), std::string(100, '\xff'), {}));
  ASSERT_OK_AND_ASSIGN(const SocketMessage message, ReceiveSocketMessage(socket.get(), kDeadline));
  EXPECT_TRUE(message.fds.empty());
  EXPECT_THAT(ReceiveSocketMessage(socket.get(), kDeadline).status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
  ASSERT_OK(Hello(offer, kProtocolVersion));
}

TEST(SharedMemoryServerTest, AClientThatCorruptsItsMemoryLosesOnlyItsConnection) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1}));
  ASSERT_OK_AND_ASSIGN(const TestJob job, shards->CreateJob(SmallJob()));
  ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, 0));
  const Vector gradient(job.map.size(), 1.0f);
  ASSERT_OK(client->Push(gradient, {}));
  const SharedMemoryOffer offer = StatusOf(shards.get(), 0).shared_memory();
  for (const uint64_t written : {UINT64_MAX, uint64_t{kRingBytes + 1}, uint64_t{kRingBytes}}) {
    ASSERT_OK_AND_ASSIGN(const RawClient bad, Hello(offer, kProtocolVersion));
    auto* memory = reinterpret_cast<ChannelMemory*>(bad.memory.data());
    std::fill_n(bad.memory.data() + FrameChannel::kRingsOffset, kRingBytes, std::byte{0x5a});
    memory->requests.written = written;
    Ring(&memory->server_bell);
    EXPECT_THAT(ReceiveSocketMessage(bad.socket.get(), kDeadline).status(),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("closed")));
    ASSERT_OK(client->Push(gradient, {}));
  }
}

TEST(SharedMemoryServerTest, SilentStrangersLockNobodyOut) {
  ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 1}));
  const SharedMemoryOffer offer = StatusOf(shards.get(), 0).shared_memory();
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK_AND_ASSIGN(silent.emplace_back(), ConnectToOffer(offer));
  }
  EXPECT_OK(Hello(offer, kProtocolVersion));
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK_AND_ASSIGN(silent.emplace_back(), ConnectToOffer(offer));
  }
  EXPECT_OK(Hello(offer, kProtocolVersion));
}

TEST(SharedMemoryServerTest, ConnectionsFitTheMessageMemoryAndComeBack) {
  ASSERT_OK_AND_ASSIGN(auto shards,
                       TestShards::Start({.shards = 1, .message_memory_bytes = 32 << 20}));
  const SharedMemoryOffer offer = StatusOf(shards.get(), 0).shared_memory();
  std::vector<RawClient> clients;
  absl::StatusOr<RawClient> next = Hello(offer, kProtocolVersion);
  while (next.ok() && clients.size() < 100) {
    clients.push_back(*std::move(next));
    next = Hello(offer, kProtocolVersion);
  }
  EXPECT_THAT(next.status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("message_memory_mib")));
  EXPECT_GE(clients.size(), 2u);
  EXPECT_LT(clients.size(), 6u);
  clients.pop_back();
  // The server notices soon that one is gone.
  for (int attempt = 0; attempt < 10'000 && !next.ok(); ++attempt) {
    next = Hello(offer, kProtocolVersion);
  }
  EXPECT_OK(next);
}

}  // namespace
}  // namespace monsoon
