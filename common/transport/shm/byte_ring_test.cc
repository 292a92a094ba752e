#include "common/transport/shm/byte_ring.h"

#include <memory>
#include <thread>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

constexpr size_t kBytes = 256;
constexpr absl::Duration kDeadline = absl::Seconds(20);

// A ring in one mapping, as two threads see it.
struct Ring256 {
  RingIndexes indexes = {};
  std::vector<std::byte> data{kBytes};
  Bell reader_bell = {}, writer_bell = {};
  RingWriter writer{&indexes, data, &reader_bell};
  RingReader reader{&indexes, data, &writer_bell};
};

std::vector<std::byte> Bytes(size_t size, size_t first) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>((first + i) * 7 % 251);
  }
  return bytes;
}

TEST(ByteRingTest, BytesComeInOrderAcrossTheEnd) {
  Ring256 ring;
  size_t sent = 0;
  for (size_t size : {1u, 100u, 256u, 0u, 37u, 255u, 256u, 200u}) {
    const std::vector<std::byte> bytes = Bytes(size, sent);
    ASSERT_OK_AND_ASSIGN(const size_t written, ring.writer.Write(bytes));
    ASSERT_EQ(written, size);
    std::vector<std::byte> out(size + 3);
    ASSERT_OK_AND_ASSIGN(const size_t read, ring.reader.Read(out));
    ASSERT_EQ(read, size);
    out.resize(size);
    EXPECT_EQ(out, bytes);
    sent += size;
  }
}

TEST(ByteRingTest, AFullRingTakesWhatFitsAndRingsWhenThereIsRoom) {
  Ring256 ring;
  ASSERT_OK_AND_ASSIGN(size_t written, ring.writer.Write(Bytes(300, 0)));
  EXPECT_EQ(written, kBytes);
  ASSERT_OK_AND_ASSIGN(written, ring.writer.Write(Bytes(10, 0)));
  EXPECT_EQ(written, 0u);
  EXPECT_EQ(ring.writer_bell.rings.load(), 0u);
  // A little room wakes nobody.
  std::vector<std::byte> out(kBytes / 2 - 1);
  ASSERT_OK_AND_ASSIGN(size_t read, ring.reader.Read(out));
  EXPECT_EQ(read, out.size());
  EXPECT_EQ(ring.writer_bell.rings.load(), 0u);
  out.resize(1);
  ASSERT_OK_AND_ASSIGN(read, ring.reader.Read(out));
  EXPECT_EQ(ring.writer_bell.rings.load(), 1u);
  // Nobody waits any more, so nobody is told.
  ASSERT_OK_AND_ASSIGN(read, ring.reader.Read(out));
  EXPECT_EQ(ring.writer_bell.rings.load(), 1u);
  ASSERT_OK_AND_ASSIGN(written, ring.writer.Write(Bytes(kBytes, 0)));
  EXPECT_EQ(written, kBytes / 2 + 1);
}

TEST(ByteRingTest, AReaderThatWaitsForMoreHasRung) {
  Ring256 ring;
  ring.indexes.writer_waits = 1;
  ASSERT_OK(ring.writer.Write(Bytes(10, 0)));
  std::vector<std::byte> out(11);
  ASSERT_OK_AND_ASSIGN(const size_t read, ring.reader.Read(out));
  EXPECT_EQ(read, 10u);
  EXPECT_EQ(ring.writer_bell.rings.load(), 1u);
}

TEST(ByteRingTest, AQuietWriteIsToldOfOnceOrWhenTheRingIsFull) {
  Ring256 ring;
  ASSERT_OK(ring.writer.Write(Bytes(10, 0), /*quietly=*/true));
  ASSERT_OK(ring.writer.Write(Bytes(20, 0), /*quietly=*/true));
  EXPECT_TRUE(ring.reader.HasBytes());
  EXPECT_EQ(ring.reader_bell.rings.load(), 0u);
  ring.writer.Tell();
  EXPECT_EQ(ring.reader_bell.rings.load(), 1u);
  ring.writer.Tell();  // of nothing new
  EXPECT_EQ(ring.reader_bell.rings.load(), 1u);
  // The writer is about to wait for a reader that sleeps.
  ASSERT_OK_AND_ASSIGN(const size_t written, ring.writer.Write(Bytes(kBytes, 0), true));
  EXPECT_EQ(written, kBytes - 30);
  EXPECT_EQ(ring.reader_bell.rings.load(), 2u);
}

TEST(ByteRingTest, ImpossibleIndexesAreRefused) {
  for (const uint64_t written : {uint64_t{kBytes + 11}, uint64_t{9}, UINT64_MAX}) {
    Ring256 ring;
    ASSERT_OK(ring.writer.Write(Bytes(10, 0)));
    std::vector<std::byte> out(10);
    ASSERT_OK(ring.reader.Read(out));
    ring.indexes.written = written;
    EXPECT_THAT(ring.reader.Read(out).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("writer's index")));
  }
  for (const uint64_t read : {uint64_t{21}, uint64_t{9}, UINT64_MAX}) {
    Ring256 ring;
    ASSERT_OK(ring.writer.Write(Bytes(20, 0)));
    std::vector<std::byte> out(10);
    ASSERT_OK(ring.reader.Read(out));
    ASSERT_OK(ring.writer.Write(Bytes(0, 0)));
    ASSERT_OK(ring.writer.Write(Bytes(1, 0)));  // has seen that 10 were read
    ring.indexes.read = read == 21 ? 22 : read;
    EXPECT_THAT(ring.writer.Write(Bytes(1, 0)).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("reader's index")));
  }
}

// Either end may be the slower one; both sleep now and then.
TEST(ByteRingTest, TwoThreadsPassAMegabyteThroughASmallRing) {
  constexpr size_t kTotal = 1 << 20;
  Ring256 ring;
  std::jthread writer([&ring] {
    size_t sent = 0;
    while (sent < kTotal) {
      const std::vector<std::byte> bytes =
          Bytes(std::min<size_t>(1 + sent % 777, kTotal - sent), sent);
      size_t done = 0;
      ASSERT_TRUE(WaitForBell(&ring.writer_bell, kDeadline, [&] {
        const absl::StatusOr<size_t> written = ring.writer.Write(std::span(bytes).subspan(done));
        EXPECT_OK(written);
        done += written.value_or(bytes.size());
        return done >= bytes.size();
      }));
      sent += done;
    }
  });
  size_t received = 0;
  std::vector<std::byte> out(500);
  while (received < kTotal) {
    size_t size = 0;
    ASSERT_TRUE(WaitForBell(&ring.reader_bell, kDeadline, [&] {
      const absl::StatusOr<size_t> read = ring.reader.Read(out);
      EXPECT_OK(read);
      size = read.value_or(0);
      return size > 0;
    }));
    const std::vector<std::byte> expected = Bytes(size, received);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out.begin())) << received;
    received += size;
  }
}

TEST(BellTest, AWaitEndsWithTheRingOrTheTime) {
  Bell bell = {};
  std::atomic<bool> done{false};
  EXPECT_FALSE(WaitForBell(&bell, absl::Milliseconds(2), [&] { return done.load(); }));
  EXPECT_FALSE(WaitForBell(&bell, absl::ZeroDuration(), [&] { return done.load(); }));
  std::jthread ringer([&] {
    while (bell.sleeping.load() == 0) {
      std::this_thread::yield();
    }
    done = true;
    Ring(&bell);
  });
  EXPECT_TRUE(WaitForBell(&bell, kDeadline, [&] { return done.load(); }));
}

// A peer that rings without cause only wakes the waiter.
TEST(BellTest, OnlyTheFirstRingWakesASleeper) {
  Bell bell = {};
  bell.sleeping = 1;
  Ring(&bell);
  EXPECT_EQ(bell.sleeping.load(), 0u);
  Ring(&bell);
  EXPECT_EQ(bell.rings.load(), 2u);
}

TEST(BellTest, SpinsInVainAreGivenUpButForAFew) {
  SpinHabit habit;
  int spins = 0;
  for (int wait = 0; wait < 1000; ++wait) {
    if (habit.Spins()) {
      ++spins;
      habit.Note(/*was_of_use=*/false);
    }
  }
  EXPECT_GE(spins, 20);
  EXPECT_LE(spins, 50);
  while (!habit.Spins()) {
  }
  habit.Note(/*was_of_use=*/true);
  for (int wait = 0; wait < 1000; ++wait) {
    ASSERT_TRUE(habit.Spins());
    habit.Note(/*was_of_use=*/true);
  }
  // One that failed is not yet a reason.
  habit.Note(/*was_of_use=*/false);
  EXPECT_TRUE(habit.Spins());
}

TEST(BellTest, RingingForNothingDoesNotEndAWait) {
  Bell bell = {};
  std::jthread ringer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Ring(&bell);
    }
  });
  EXPECT_FALSE(WaitForBell(&bell, absl::Milliseconds(20), [] { return false; }));
}

}  // namespace
}  // namespace monsoon
