#include "common/transport/shm/frame_channel.h"

#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(20);

struct Pages {
  struct Free {
    void operator()(std::byte* data) const { operator delete[](data, std::align_val_t(4096)); }
  };
  std::unique_ptr<std::byte[], Free> data{new (std::align_val_t(4096))
                                              std::byte[FrameChannel::kMemoryBytes]()};
  Bell client_bell = {};
};

std::string MakeFrame(uint64_t request_id, size_t payload_bytes) {
  DataHeader header;
  header.set_request_id(request_id);
  header.mutable_write()->set_job(std::string(request_id % 100, 'j'));
  std::string frame = EncodeFrameHead(header);
  for (size_t i = 0; i < payload_bytes; ++i) {
    frame.push_back(static_cast<char>((request_id + i) % 253));
  }
  return frame;
}

std::string Text(ByteChunk chunk) {
  return {reinterpret_cast<const char*>(chunk.data()), chunk.size()};
}

void Send(FrameSender* sender, Bell* bell, const std::string& frame) {
  const ByteChunk parts[] = {std::as_bytes(std::span(frame).first(frame.size() / 3)),
                             std::as_bytes(std::span(frame).subspan(frame.size() / 3))};
  sender->Begin(parts);
  ASSERT_TRUE(WaitForBell(bell, kDeadline, [sender] {
    EXPECT_OK(sender->Continue());
    return !sender->busy();
  }));
}

std::string Receive(FrameReceiver* receiver, Bell* bell) {
  EXPECT_TRUE(WaitForBell(bell, kDeadline, [receiver] {
    const absl::StatusOr<bool> complete = receiver->Continue();
    EXPECT_OK(complete);
    return complete.value_or(true);
  }));
  return Text(receiver->frame());
}

TEST(FrameChannelTest, PayloadsArriveAligned) {
  Pages pages;
  FrameChannel client(FrameChannel::Side::kClient, pages.data.get(), &pages.client_bell);
  FrameChannel server(FrameChannel::Side::kServer, pages.data.get(), &pages.client_bell);
  Bell* const server_bell = FrameChannel::server_bell(pages.data.get());
  for (uint64_t id = 1; id < 150; ++id) {
    const std::string frame = MakeFrame(id, 640);
    Send(client.sender(), &pages.client_bell, frame);
    ASSERT_EQ(Receive(server.receiver(), server_bell), frame);
    const std::byte* end = server.receiver()->frame().data() + server.receiver()->frame().size();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(end - 640) % 64, 0u);
  }
}

// Who reads is woken neither for a length nor for a header alone.
TEST(FrameChannelTest, AReceiverIsWokenWhenThereIsSomethingToReadAtLength) {
  for (const bool whole : {false, true}) {
    Pages pages;
    FrameChannel client(FrameChannel::Side::kClient, pages.data.get(), &pages.client_bell);
    client.sender()->TellOfWholeFrames(whole);
    const std::string frame = MakeFrame(1, 3 * kRingPieceBytes - 1000);
    const ByteChunk parts[] = {std::as_bytes(std::span(frame).first(100)),
                               std::as_bytes(std::span(frame).subspan(100))};
    client.sender()->Begin(parts);
    ASSERT_OK(client.sender()->Continue());
    ASSERT_FALSE(client.sender()->busy());
    EXPECT_EQ(FrameChannel::server_bell(pages.data.get())->rings.load(), whole ? 1u : 3u);
  }
}

// A frame whose payload are `floats` ones, but for infinity at `place` if that is one of
// them.
std::string MakeFloats(size_t floats, size_t place, size_t more_bytes = 0) {
  std::vector<float> values(floats, 1.0f);
  if (place < floats) {
    values[place] = std::numeric_limits<float>::infinity();
  }
  std::string frame = MakeFrame(floats % 7, 0);
  frame.append(reinterpret_cast<const char*>(values.data()), floats * sizeof(float));
  return frame + std::string(more_bytes, '\xff');
}

TEST(FrameChannelTest, APayloadThatIsNotFiniteIsSeenAtEachPlace) {
  constexpr size_t kNowhere = SIZE_MAX;
  constexpr size_t kFloats = kMaxFramePayloadBytes / sizeof(float);
  Pages pages;
  FrameChannel client(FrameChannel::Side::kClient, pages.data.get(), &pages.client_bell);
  FrameChannel server(FrameChannel::Side::kServer, pages.data.get(), &pages.client_bell);
  Bell* const bell = FrameChannel::server_bell(pages.data.get());
  const auto finite = [&](const std::string& frame) {
    std::jthread sending([&] { Send(client.sender(), &pages.client_bell, frame); });
    EXPECT_EQ(Receive(server.receiver(), bell), frame);
    return server.receiver()->finite_payload();
  };
  EXPECT_FALSE(finite(MakeFloats(16, kNowhere)));  // nobody has looked
  server.receiver()->LookForFinite();
  for (const size_t floats : {size_t{1}, size_t{16}, size_t{5003}, kFloats}) {
    EXPECT_TRUE(finite(MakeFloats(floats, kNowhere)));
    for (const size_t place : {size_t{0}, floats / 3, floats - 1}) {
      EXPECT_FALSE(finite(MakeFloats(floats, place))) << place << " of " << floats;
    }
  }
  EXPECT_TRUE(finite(MakeFloats(0, kNowhere)));
  EXPECT_TRUE(finite(MakeFloats(10, kNowhere, /*more_bytes=*/3)));  // no float of four bytes
  EXPECT_FALSE(finite(std::string(1000, '\xff').replace(4, 4, 4, '\0')));
}

// Frames as large as they may be, larger than the ring, both ways at once.
TEST(FrameChannelTest, TwoThreadsExchangeFramesOfAllSizes) {
  Pages pages;
  FrameChannel client(FrameChannel::Side::kClient, pages.data.get(), &pages.client_bell);
  static constexpr size_t kSizes[] = {0, 4, 64, 5000, kMaxFramePayloadBytes, 100, 700'000, 0};
  std::jthread echo([&pages] {
    FrameChannel server(FrameChannel::Side::kServer, pages.data.get(), &pages.client_bell);
    server.sender()->TellOfWholeFrames(true);
    Bell* const bell = FrameChannel::server_bell(pages.data.get());
    for (int i = 0; i < 2 * static_cast<int>(std::size(kSizes)); ++i) {
      const std::string frame = Receive(server.receiver(), bell);
      Send(server.sender(), bell, frame);
    }
  });
  uint64_t id = 0;
  for (int round = 0; round < 2; ++round) {
    for (const size_t size : kSizes) {
      const std::string frame = MakeFrame(++id, size);
      Send(client.sender(), &pages.client_bell, frame);
      ASSERT_EQ(Receive(client.receiver(), &pages.client_bell), frame);
    }
  }
}

TEST(FrameChannelTest, AnImpossibleLengthIsRefused) {
  for (const uint32_t length : {0u, 7u, static_cast<uint32_t>(kMaxFrameBytes + 1), UINT32_MAX}) {
    for (const bool complement : {true, false}) {
      Pages pages;
      auto* memory = reinterpret_cast<ChannelMemory*>(pages.data.get());
      RingWriter writer(&memory->requests,
                        {pages.data.get() + FrameChannel::kRingsOffset, kRingBytes},
                        &memory->server_bell);
      FrameChannel server(FrameChannel::Side::kServer, pages.data.get(), &pages.client_bell);
      const uint32_t words[4] = {length, complement ? ~length : length, 0, 0};
      ASSERT_OK(writer.Write(std::as_bytes(std::span(words))));
      EXPECT_THAT(server.receiver()->Continue().status(),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("length")));
    }
  }
}

// Bytes that are no frame arrive as they are: the decoder says what is wrong.
TEST(FrameChannelTest, AnyBytesOfALegalLengthArrive) {
  Pages pages;
  FrameChannel client(FrameChannel::Side::kClient, pages.data.get(), &pages.client_bell);
  FrameChannel server(FrameChannel::Side::kServer, pages.data.get(), &pages.client_bell);
  Bell* const bell = FrameChannel::server_bell(pages.data.get());
  for (const size_t size : {size_t{8}, size_t{9}, size_t{1000}}) {
    const std::string junk(size, '\xff');
    Send(client.sender(), &pages.client_bell, junk);
    EXPECT_EQ(Receive(server.receiver(), bell), junk);
  }
}

}  // namespace
}  // namespace monsoon
