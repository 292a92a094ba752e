// Who may do what, through real connections: each method and each kind of frame, for each role,
// with each kind of credential that one may come with.
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/security/access.h"
#include "common/security/revocations.h"
#include "common/security/testing/members.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/frame_transport.h"
#include "common/transport/frame_listener.h"
#include "common/transport/grpc/call_bytes.h"
#include "common/transport/grpc/call_table.h"
#include "common/transport/grpc/channel.h"
#include "common/transport/grpc/grpc_frame_transport.h"
#include "common/transport/grpc/guard.h"
#include "common/transport/grpc/tls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor.pb.h"

namespace monsoon {
namespace {

using testing::TestAuthority;

constexpr absl::Duration kDeadline = absl::Seconds(20);
constexpr absl::Duration kRefusedBy = absl::Seconds(5);
constexpr size_t kRoles = kAccessColumns - 1;
constexpr absl::string_view kFrame = "frame ";
constexpr absl::string_view kStream = "/monsoon.ParameterServer/Data";
constexpr absl::string_view kHealth = "/grpc.health.v1.Health/Check";

// With what somebody comes.
enum class Shown {
  kRight,
  kNothing,  // plain
  kNoCertificate,
  kWrongAuthority,
  kOtherCluster,
  kEnded,
  kNotBegun,
  kRevoked,
  kThisJobs,  // there for the job that frames are of
  kOtherJobs,
};
constexpr std::pair<Shown, const char*> kShown[] = {
    {Shown::kRight, "right"},
    {Shown::kNothing, "plain"},
    {Shown::kNoCertificate, "no certificate"},
    {Shown::kWrongAuthority, "wrong authority"},
    {Shown::kOtherCluster, "other cluster"},
    {Shown::kEnded, "ended"},
    {Shown::kNotBegun, "not begun"},
    {Shown::kRevoked, "revoked"},
    {Shown::kThisJobs, "this job's"},
    {Shown::kOtherJobs, "another job's"},
};
constexpr char kJob[] = "lenet-1";
constexpr absl::string_view kPeers = "peer";  // of no job
constexpr uint32_t kPeerKind = 9;

// Of the job.
DataHeader RequestOf(const std::string& kind) {
  DataHeader request;
  if (kind == kPeers) {
    request.mutable_peer()->set_kind(kPeerKind);
    return request;
  }
  const google::protobuf::FieldDescriptor* const field =
      DataHeader::descriptor()->FindFieldByName(kind);
  google::protobuf::Message* names = request.GetReflection()->MutableMessage(&request, field);
  if (const auto* session = field->message_type()->FindFieldByName("session")) {
    names = names->GetReflection()->MutableMessage(names, session);
  }
  names->GetReflection()->SetString(names, names->GetDescriptor()->FindFieldByName("job"), kJob);
  return request;
}

// Serves each kind that has a row, with an answer that nothing else gives.
class AnyHandler final : public FrameHandler {
 public:
  void Register(FrameKinds* kinds) override {
    for (const AccessRow& row : AccessTable()) {
      if (!absl::StartsWith(row.what, kFrame)) {
        continue;
      }
      const DataHeader request = RequestOf(std::string(row.what.substr(kFrame.size())));
      request.has_peer() ? kinds->AddPeer(kPeerKind, Serve)
                         : kinds->Add(request.kind_case(), Serve);
    }
  }

 private:
  static absl::StatusOr<ServedFrame> Serve(DataHeader*, ChunkCursor*, FrameScratch*) {
    ServedFrame served;
    served.first.emplace().header.mutable_peer()->set_kind(7);
    return served;
  }
};

class AccessMatrixTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CallTable calls;
    for (const AccessRow& row : AccessTable()) {
      if (absl::StartsWith(row.what, "/") && row.what != kStream && row.what != kHealth) {
        calls.AddBytes(std::string(row.what),
                       [](const Caller&, absl::string_view) { return std::string("done"); });
      }
    }
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Tls> tls, Tls::Open(lab_.File(Role::kPs, "0")));
    ASSERT_OK(listener_.Listen(
        {.address = "127.0.0.1:0", .tls = tls, .membership = Guard::NotRevoked(&revoked_)},
        std::move(calls)));
  }

  // Of the role, and of who comes so. Null: plain.
  std::shared_ptr<Tls> Credential(Role role, Shown shown) {
    const absl::Time now = absl::Now();
    const auto open = [&](const TestAuthority& authority, absl::Time at, absl::Duration lifetime,
                          const std::string& job = "") {
      const std::string file = authority.File(role, absl::StrCat(++names_), job, at, lifetime);
      return Tls::Open(file, at + absl::Seconds(1)).value();
    };
    switch (shown) {
      case Shown::kNothing:
        return nullptr;
      case Shown::kNoCertificate:
        return Tls::ForJoining(lab_.authority().certificate()).value();
      case Shown::kWrongAuthority:
        return open(wrong_, now, kMemberLifetime);
      case Shown::kOtherCluster:
        return open(other_, now, kMemberLifetime);
      case Shown::kEnded:
        return open(lab_, now - absl::Hours(2), absl::Hours(1));
      case Shown::kNotBegun:
        return open(lab_, now + absl::Hours(1), kMemberLifetime);
      case Shown::kThisJobs:
        return open(lab_, now, kMemberLifetime, kJob);
      case Shown::kOtherJobs:
        return open(lab_, now, kMemberLifetime, "lenet-2");
      case Shown::kRight:
      case Shown::kRevoked:
        break;
    }
    const std::shared_ptr<Tls> tls = open(lab_, now, kMemberLifetime);
    if (shown == Shown::kRevoked) {
      MemberKey key;
      key.set_fingerprint(tls->self_fingerprint());
      key.set_not_after_ms(absl::ToUnixMillis(now + absl::Hours(1)));
      revoked_.Add(MakeRevocations({key}), now);
    }
    return tls;
  }

  bool MayCall(const std::shared_ptr<grpc::Channel>& channel, absl::string_view method) {
    const absl::Duration deadline = connects_ ? kDeadline : kRefusedBy;
    return CallBytes(channel, std::string(method), "", deadline, /*waits=*/false).ok();
  }

  bool MaySend(FrameTransport* transport, const std::string& kind) {
    DataHeader request = RequestOf(kind);
    request.set_request_id(1);
    transport->Send(0, {.head = std::make_shared<const std::string>(EncodeFrameHead(request))});
    const FrameTransport::Event event = transport->Wait(kDeadline);
    EXPECT_NE(event.kind, FrameTransport::Event::Kind::kTimeout) << kind;
    DataHeader answer;
    if (event.kind == FrameTransport::Event::Kind::kReceived) {
      ChunkCursor cursor(event.frame, /*finite=*/false);
      EXPECT_OK(DecodeFrameHead(&cursor, &answer));
    }
    transport->Reset(0);
    return answer.has_peer();
  }

  // Calls are of no job: whoever serves one looks at what it is about.
  static bool Counts(Shown shown, absl::string_view what) {
    const bool frame = absl::StartsWith(what, kFrame);
    return shown == Shown::kRight ||
           (shown == Shown::kThisJobs && !(frame && what.substr(kFrame.size()) == kPeers)) ||
           (shown == Shown::kOtherJobs && !frame);
  }

  const TestAuthority lab_{"lab", absl::Now() - absl::Hours(24)};
  const TestAuthority wrong_{"lab", absl::Now() - absl::Hours(24)};
  const TestAuthority other_{"other", absl::Now() - absl::Hours(24)};
  RevokedKeys revoked_;
  AnyHandler handler_;
  FrameListener listener_{&handler_, {.shared_memory = false}};
  int names_ = 0;
  bool connects_ = true;
};

TEST_F(AccessMatrixTest, EachCellIsAsTheTableSays) {
  size_t cells = 0;
  size_t wrong = 0;
  for (const auto& [shown, name] : kShown) {
    size_t allowed = 0;
    const size_t before = cells;
    for (size_t role = 0; role < kRoles; ++role) {
      const std::shared_ptr<Tls> tls = Credential(static_cast<Role>(role), shown);
      connects_ = Counts(shown, "") || shown == Shown::kRevoked;
      const auto channel = MakeChannel(listener_.address(), tls, Role::kPs);
      const auto transport =
          MakeGrpcTransport({listener_.address()}, tls, /*connections=*/1, Role::kPs);
      for (const AccessRow& row : AccessTable()) {
        if (row.what == kStream) {
          continue;  // its frames are
        }
        const bool frame = absl::StartsWith(row.what, kFrame);
        const bool may = frame
                             ? MaySend(transport.get(), std::string(row.what.substr(kFrame.size())))
                             : MayCall(channel, row.what);
        const bool right = may == (Counts(shown, row.what) && row.allowed[role]);
        EXPECT_TRUE(right) << row.what << " by " << AccessColumn(role) << " with " << name;
        ++cells;
        wrong += right ? 0 : 1;
        allowed += may ? 1 : 0;
      }
    }
    std::printf("  %-16s %4zu cells, allowed %3zu\n", name, cells - before, allowed);
  }
  std::printf("  %zu wrong cells of %zu\n", wrong, cells);
}

}  // namespace
}  // namespace monsoon
