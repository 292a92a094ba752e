// TestShards: real parameter servers inside a test process, on Unix sockets
// of their own.
//
//   ASSERT_OK_AND_ASSIGN(auto shards, TestShards::Start({.shards = 2}));
//   ASSERT_OK_AND_ASSIGN(TestJob job, shards->CreateJob({.model = model, ...}));
//   ASSERT_OK_AND_ASSIGN(auto client, shards->Join(job, /*worker=*/0));
//
// Thread safety: none, but the clients may run on threads of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/model/parameter_layout.h"
#include "common/model/shard_map.h"
#include "common/security/identity.h"
#include "common/security/testing/members.h"
#include "common/transport/frame/fault.h"
#include "proto/downpour.pb.h"
#include "proto/member_identity.pb.h"
#include "proto/model.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/client/parameter_client.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/server/ps_server.h"

namespace monsoon {

// What gRPC goes over: Unix sockets, loopback as it is, or loopback with TLS, where the tests'
// calls to the shards are the coordinator's and the clients are a worker's.
enum class TestLink { kUnix, kTcp, kTls };

struct TestShardsOptions {
  uint32_t shards = 1;
  TestLink link = TestLink::kUnix;
  FaultOptions fault = {};
  uint64_t memory_limit_bytes = uint64_t{256} << 20;
  uint64_t message_memory_bytes = uint64_t{256} << 20;
  // Of the clients that Join and Reader make.
  Transport transport = Transport::AUTO;
  uint32_t connections = 1;
  // Whether the servers offer shared memory.
  bool shared_memory = true;
  // Of all shards; "": in memory only.
  std::string state_dir;
};

struct TestJobOptions {
  std::string name = "test-1";
  Model model;
  Optimizer optimizer;
  uint64_t seed = 1;
  uint64_t max_stripe_bytes = kMaxStripeBytes;
  bool written_by_client = false;
  std::optional<Rounds> rounds;
  WireFormat fetch_changes = FLOAT32;
  bool store_only = false;
};

// What every process derives from a job.
struct TestJob {
  std::string name;
  bool rounds = false;
  WireFormat fetch_changes = FLOAT32;
  ParameterLayout layout;
  ShardMap map;
  std::vector<TableMap> tables;
};

// One dense layer of `inputs` x `units` without bias: inputs * units floats.
Model TestModel(uint32_t inputs, uint32_t units);

// "Grpc", "SharedMemory" or "Auto", as a test's parameter.
std::string NameOf(Transport transport);

// w -= rate * g.
Optimizer TestSgd(double rate);

// 4096 floats in stripes of 256 floats: 16 stripes. SGD with rate 0.5.
TestJobOptions SmallJob();

class TestShards {
 public:
  static absl::StatusOr<std::unique_ptr<TestShards>> Start(const TestShardsOptions& options);

  const std::vector<std::string>& addresses() const { return addresses_; }
  ShardControl* control(uint32_t shard) { return controls_[shard].get(); }
  PsServer* server(uint32_t shard) { return servers_[shard].get(); }
  // Of a member of their cluster, with a new key; null without TLS. `job`: the one that it is there
  // for; "": any.
  std::shared_ptr<Tls> TlsOf(Role role, const std::string& name, const std::string& job = "") const;
  // Whose the sessions are that are opened from now on, and those that Restore brings back.
  void SetOwner(MemberIdentity owner) { owner_ = std::move(owner); }

  // Stops a shard at once and starts a new one, with a new epoch, at its address; with TLS at
  // another port, since others may have bound the one before.
  absl::Status Restart(uint32_t shard);
  void Stop(uint32_t shard) { servers_[shard].reset(); }
  absl::Status StartAgain(uint32_t shard);

  // What makes the slice of `shard`.
  CreateShardJobRequest CreateRequest(const TestJobOptions& options, uint32_t shard) const;
  // On every shard.
  absl::StatusOr<TestJob> CreateJob(const TestJobOptions& options);

  // Has all shards write `generation` of the job, and waits until they have. DeadlineExceeded
  // names one that has not.
  absl::Status Checkpoint(const std::string& job, uint64_t generation);
  // The coordinator's part once a shard was started anew: the slice comes back with the first
  // sessions of the workers 0 .. workers - 1. Their clients are to be told of the epoch.
  absl::StatusOr<RestoreShardJobReply> Restore(const TestJobOptions& options, uint32_t shard,
                                               uint32_t workers = 1);

  // Opens a session on every shard; what a client of it needs.
  absl::StatusOr<ParameterClientOptions> OpenSession(const TestJob& job, uint32_t worker,
                                                     uint64_t incarnation = 1);
  absl::StatusOr<std::unique_ptr<ParameterClient>> Join(const TestJob& job, uint32_t worker,
                                                        uint64_t incarnation = 1);
  // A client without a session.
  absl::StatusOr<std::unique_ptr<ParameterClient>> Reader(const TestJob& job);

 private:
  explicit TestShards(const TestShardsOptions& options) : options_(options) {}
  absl::StatusOr<std::unique_ptr<PsServer>> StartServer(uint32_t shard) const;
  std::unique_ptr<ShardControl> MakeControl(uint32_t shard) const;

  const TestShardsOptions options_;
  MemberIdentity owner_;
  std::unique_ptr<testing::TestAuthority> authority_;  // null without TLS
  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<PsServer>> servers_;
  std::vector<std::unique_ptr<ShardControl>> controls_;
};

}  // namespace monsoon
