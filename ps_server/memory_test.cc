// 1 GiB offered by clients that ignore credits: the server's memory stays
// within the stated budget.
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "ps_server/client/shard_control.h"
#include "ps_server/testing/flood.h"
#include "ps_server/testing/ps_process.h"
#include "ps_server/testing/test_shards.h"

namespace monsoon {
namespace {

// A field of /proc/PID/status in bytes.
uint64_t ProcessMemory(int pid, const std::string& field) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  std::string name;
  uint64_t kib = 0;
  while (file >> name) {
    if (name == field + ":" && file >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}

TEST(MemoryTest, AFloodStaysWithinTheMessageBudget) {
  constexpr uint64_t kBudget = uint64_t{48} << 20;
  constexpr uint64_t kOffered = uint64_t{1} << 30;
  constexpr uint32_t kClients = 16;  // more than have a turn at once
  // The delay keeps the server slower than the clients.
  ASSERT_OK_AND_ASSIGN(PsProcess server,
                       StartPsProcess(std::getenv("TEST_TMPDIR"), "message_memory_mib: 48",
                                      {"--fault=delay_ms=10"}));
  const int pid = server.process.pid();
  auto control = ShardControl::Create(server.address, absl::Seconds(20));

  CreateShardJobRequest request;
  request.set_job("flood-1");
  *request.mutable_model() = TestModel(512, 512);  // one stripe of 1 MiB
  *request.mutable_optimizer() = TestSgd(0.1);
  request.set_shards(1);
  request.set_max_stripe_bytes(kMaxStripeBytes);
  request.set_layout_hash(ParameterLayout::Create(request.model())->Hash());
  ASSERT_OK(control->CreateJob(request));
  PushRequest push;
  push.mutable_session()->set_job("flood-1");
  push.mutable_session()->set_incarnation(1);
  push.set_layout_hash(request.layout_hash());
  ASSERT_OK_AND_ASSIGN(const OpenSessionReply session, control->OpenSession(push.session()));
  PushRecord* record = push.add_record();
  record->set_sequence(1);
  record->set_shard_epoch(session.shard_epoch());
  record->set_length(kMaxStripeBytes);

  const uint64_t before = ProcessMemory(pid, "VmRSS");
  ASSERT_GT(before, 0u);
  const FloodResult result = Flood(server.address, push, kClients, kOffered);
  const uint64_t peak = ProcessMemory(pid, "VmHWM");
  EXPECT_GE(result.offered_bytes, kOffered);
  EXPECT_EQ(result.refused_streams, 0u);  // they wait for their turns
  EXPECT_LE(peak, before + kBudget) << "before " << before << ", offered " << result.offered_bytes
                                    << ", refused streams " << result.refused_streams;
  RecordProperty("peak_over_before_bytes", static_cast<int>(peak - before));
  // And it still serves.
  ASSERT_OK_AND_ASSIGN(const ShardStatusReply status, control->GetStatus("test"));
  EXPECT_EQ(status.job(0).version_max(), 1u);
  EXPECT_GT(status.job(0).duplicates(), 0u);
}

}  // namespace
}  // namespace monsoon
