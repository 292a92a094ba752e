#include "common/transport/shm/shm_server.h"

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/testing/socket_folder.h"
#include "common/testing/status_matchers.h"
#include "common/transport/frame/frame_codec.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/frame_server.h"
#include "common/transport/shm/shm_frame_transport.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(20);
constexpr uint32_t kEcho = 1;

class EchoHandler final : public FrameHandler {
 public:
  void Register(FrameKinds* kinds) override {
    kinds->AddPeer(
        kEcho, [](DataHeader* request, ChunkCursor*, FrameScratch*) -> absl::StatusOr<ServedFrame> {
          ServedFrame served;
          *served.first.emplace().header.mutable_peer() = request->peer();
          return served;
        });
  }
};

class SharedMemoryServerTest : public ::testing::Test {
 protected:
  SharedMemoryServerTest() {
    EXPECT_EQ(mkdir(places_.xdg_runtime_dir.c_str(), 0700), 0);
    absl::StatusOr<std::unique_ptr<SharedMemoryServer>> server =
        SharedMemoryServer::Start(&frames_, places_);
    EXPECT_OK(server.status());
    server_ = *std::move(server);
  }

  // Sends a frame to the server and takes its echo.
  static absl::Status Echo(SharedMemoryTransport* transport) {
    DataHeader header;
    header.mutable_peer()->set_kind(kEcho);
    transport->Send(0, {std::make_shared<const std::string>(EncodeFrameHead(header)), {}});
    const FrameTransport::Event event = transport->Wait(kDeadline);
    return event.kind == FrameTransport::Event::Kind::kReceived
               ? absl::OkStatus()
               : absl::UnavailableError(event.status.message());
  }

  const RuntimeFolder::Places places_ = {
      .xdg_runtime_dir =
          absl::StrCat(testing::SocketFolder(), "/",
                       ::testing::UnitTest::GetInstance()->current_test_info()->line()),
      .tmp = testing::SocketFolder()};
  EchoHandler handler_;
  FrameServer frames_{&handler_, /*message_memory_bytes=*/64 << 20, FaultOptions()};
  std::unique_ptr<SharedMemoryServer> server_;
};

TEST_F(SharedMemoryServerTest, ServesWhoFindsItsFolder) {
  const SharedMemoryOffer offer = server_->offer();
  EXPECT_EQ(FolderOfSocket(offer.socket()), places_.xdg_runtime_dir + "/monsoon");
  ASSERT_OK_AND_ASSIGN(auto transport, SharedMemoryTransport::Create(1));
  ASSERT_OK(transport->Connect(0, offer, kDeadline));
  EXPECT_OK(Echo(transport.get()));
  server_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(places_.xdg_runtime_dir + "/monsoon"));
  EXPECT_FALSE(transport->Alive(0));
}

// As systemd does when a user's last session ends.
TEST_F(SharedMemoryServerTest, WithItsFolderTheOfferGoesAndWhoIsConnectedStays) {
  const SharedMemoryOffer offer = server_->offer();
  ASSERT_OK_AND_ASSIGN(auto transport, SharedMemoryTransport::Create(1));
  ASSERT_OK(transport->Connect(0, offer, kDeadline));
  ASSERT_OK(Echo(transport.get()));
  std::filesystem::remove_all(places_.xdg_runtime_dir);
  const absl::Duration end = Clock::Real()->Now() + kDeadline;
  while (!server_->offer().socket().empty() && Clock::Real()->Now() < end) {
    ASSERT_OK(Echo(transport.get()));
  }
  EXPECT_EQ(server_->offer().socket(), "");
  EXPECT_OK(Echo(transport.get()));
  ASSERT_OK_AND_ASSIGN(auto late, SharedMemoryTransport::Create(1));
  EXPECT_THAT(late->Connect(0, offer, kDeadline),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not seen here")));
}

TEST_F(SharedMemoryServerTest, WithoutAFolderThereIsNone) {
  std::filesystem::permissions(
      places_.xdg_runtime_dir + "/monsoon",
      std::filesystem::perms::owner_all | std::filesystem::perms::others_exec);
  EXPECT_THAT(SharedMemoryServer::Start(&frames_, places_).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("chmod 700")));
}

TEST(SharedMemoryTransportTest, WhoIsWokenWaitsNoLonger) {
  ASSERT_OK_AND_ASSIGN(const auto transport, SharedMemoryTransport::Create(1));
  const absl::Duration began = Clock::Real()->Now();
  for (int round = 0; round < 50; ++round) {
    std::jthread waker([&] { transport->Wake(); });
    EXPECT_EQ(transport->Wait(kDeadline).kind, FrameTransport::Event::Kind::kTimeout);
  }
  transport->Wake();  // before it waits
  EXPECT_EQ(transport->Wait(kDeadline).kind, FrameTransport::Event::Kind::kTimeout);
  EXPECT_LT(Clock::Real()->Now() - began, kDeadline);
}

}  // namespace
}  // namespace monsoon
