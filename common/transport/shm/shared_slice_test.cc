#include "common/transport/shm/shared_slice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
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

constexpr SharedShape kShape = {/*shard_epoch=*/7, /*floats=*/10'000, /*stripe_floats=*/4096};

// As a client gets it: through a descriptor, mapped anew.
absl::StatusOr<std::unique_ptr<SliceReader>> ReaderOf(const SharedSlice& slice,
                                                      const SharedShape& shape, SessionSlot slot) {
  absl::StatusOr<MemoryFile> file = MemoryFile::Adopt(UniqueFd(dup(slice.fd())), 1);
  return file.ok() ? SliceReader::Open(*file, shape, slot) : file.status();
}

TEST(SharedSliceTest, ReadersSeeWhatWasWritten) {
  ASSERT_OK_AND_ASSIGN(SharedSlice slice, SharedSlice::Create(kShape));
  ASSERT_EQ(slice.stripes(), 3u);
  EXPECT_EQ(slice.stripe(2).size(), 10'000u - 2 * 4096);
  const SessionSlot first = slice.TakeSlot(), second = slice.TakeSlot();
  slice.Publish(second);
  ASSERT_OK_AND_ASSIGN(const auto reader, ReaderOf(slice, kShape, second));
  std::vector<float> out(4096, 1.0f);
  std::optional<SliceReader::Mark> mark = reader->Read(1, out);
  ASSERT_TRUE(mark.has_value());
  EXPECT_EQ(mark->version, 0u);
  EXPECT_EQ(out, std::vector<float>(4096, 0.0f));
  {
    const StripeWriteScope write(slice.header(1));
    std::ranges::fill(slice.stripe(1), 3.0f);
    slice.header(1)->version = 12;
    slice.header(1)->applied[first.slot] = 4;
    slice.header(1)->applied[second.slot] = 5;
    EXPECT_FALSE(reader->Read(1, out).has_value());
    EXPECT_TRUE(reader->Read(0, out).has_value());
  }
  mark = reader->Read(1, out);
  ASSERT_TRUE(mark.has_value());
  EXPECT_EQ(mark->version, 12u);
  EXPECT_EQ(mark->applied_sequence, 5u);
  EXPECT_EQ(out, std::vector<float>(4096, 3.0f));
  ASSERT_OK_AND_ASSIGN(const auto exporter, ReaderOf(slice, kShape, {}));
  EXPECT_EQ(exporter->Read(1, out)->applied_sequence, 0u);
}

TEST(SharedSliceTest, AClosedSessionAndARetiredJobEndReading) {
  ASSERT_OK_AND_ASSIGN(SharedSlice slice, SharedSlice::Create(kShape));
  const SessionSlot slot = slice.TakeSlot();
  ASSERT_OK_AND_ASSIGN(const auto reader, ReaderOf(slice, kShape, slot));
  ASSERT_OK_AND_ASSIGN(const auto exporter, ReaderOf(slice, kShape, {}));
  EXPECT_FALSE(reader->valid());
  slice.Publish(slot);
  EXPECT_TRUE(reader->valid());
  slice.CloseSlot(slot);
  EXPECT_FALSE(reader->valid());
  // The next session in the same slot is another one.
  const SessionSlot next = slice.TakeSlot();
  EXPECT_EQ(next.slot, slot.slot);
  slice.Publish(next);
  EXPECT_FALSE(reader->valid());
  EXPECT_TRUE(exporter->valid());
  slice.Retire();
  EXPECT_FALSE(exporter->valid());
}

TEST(SharedSliceTest, TheSlotsComeToAnEnd) {
  ASSERT_OK_AND_ASSIGN(SharedSlice slice, SharedSlice::Create(kShape));
  for (uint32_t i = 0; i < kSessionSlots; ++i) {
    EXPECT_NE(slice.TakeSlot().ticket, 0u);
  }
  const SessionSlot none = slice.TakeSlot();
  EXPECT_EQ(none.ticket, 0u);
  slice.Publish(none);
  slice.CloseSlot(none);
  EXPECT_EQ(slice.TakeSlot().ticket, 0u);
}

TEST(SharedSliceTest, AnotherShapeIsRefused) {
  ASSERT_OK_AND_ASSIGN(SharedSlice slice, SharedSlice::Create(kShape));
  for (const SharedShape& other :
       {SharedShape{8, 10'000, 4096}, SharedShape{7, 9'999, 4096}, SharedShape{7, 10'000, 2048},
        SharedShape{7, 10'000'000, 4096}}) {
    EXPECT_THAT(ReaderOf(slice, other, {}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parameters")));
  }
  EXPECT_THAT(ReaderOf(slice, kShape, {kSessionSlots, 1}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("size")));
}

// Each version fills the stripe with its number, so a torn copy has two of them.
TEST(SharedSliceTest, AReaderBesideAWriterGetsNoTornCopy) {
  constexpr uint64_t kVersions = 20'000;
  ASSERT_OK_AND_ASSIGN(SharedSlice slice, SharedSlice::Create({7, 4096, 4096}));
  ASSERT_OK_AND_ASSIGN(const auto reader, ReaderOf(slice, {7, 4096, 4096}, {}));
  std::atomic<bool> done{false};
  std::jthread writer([&] {
    StripeHeader* header = slice.header(0);
    for (uint64_t version = 1; version <= kVersions; ++version) {
      const StripeWriteScope write(header);
      std::ranges::fill(slice.stripe(0), static_cast<float>(version));
      header->version.store(version, std::memory_order_relaxed);
    }
    done = true;
  });
  std::vector<float> out(4096);
  uint64_t last = 0;
  while (last < kVersions) {
    const bool last_round = done;
    const std::optional<SliceReader::Mark> mark = reader->Read(0, out);
    ASSERT_TRUE(mark.has_value() || !last_round);
    if (mark.has_value()) {
      ASSERT_GE(mark->version, last);
      last = mark->version;
      ASSERT_TRUE(std::ranges::all_of(
          out, [last](float value) { return value == static_cast<float>(last); }))
          << "torn at version " << last;
    }
  }
}

// A write that begins and ends while the stripe is copied: the copy's target has
// a page that it cannot write to until the fault's handler was the writer.
struct Interruption {
  StripeHeader* header = nullptr;
  std::span<float> stripe;
  std::span<std::byte> page;
  int count = 0;
} interruption;

void WriteAndUnlock(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const std::byte*>(info->si_addr);
  if (address < interruption.page.data() ||
      address >= interruption.page.data() + interruption.page.size() || interruption.count++ > 0) {
    std::signal(signal, SIG_DFL);  // somebody else's fault
    return;
  }
  const StripeWriteScope write(interruption.header);
  std::ranges::fill(interruption.stripe, 1.0f);
  interruption.header->version.store(1, std::memory_order_relaxed);
  mprotect(interruption.page.data(), interruption.page.size(), PROT_READ | PROT_WRITE);
}

TEST(SharedSliceTest, ACopyThatAWriteInterruptsDoesNotCount) {
  constexpr size_t kPage = 4096, kPages = 4, kFloats = kPages * kPage / sizeof(float);
  ASSERT_OK_AND_ASSIGN(SharedSlice slice, SharedSlice::Create({7, kFloats, kFloats}));
  ASSERT_OK_AND_ASSIGN(const auto reader, ReaderOf(slice, {7, kFloats, kFloats}, {}));
  void* const memory =
      mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const bytes = static_cast<std::byte*>(memory);
  interruption = {slice.header(0), slice.stripe(0), {bytes + 2 * kPage, kPage}, 0};
  ASSERT_EQ(mprotect(interruption.page.data(), kPage, PROT_NONE), 0);
  struct sigaction action = {}, before = {};
  action.sa_sigaction = WriteAndUnlock;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGSEGV, &action, &before), 0);
  const std::span<float> out(static_cast<float*>(memory), kFloats);
  EXPECT_FALSE(reader->Read(0, out).has_value());
  ASSERT_EQ(sigaction(SIGSEGV, &before, nullptr), 0);
  EXPECT_EQ(interruption.count, 1);
  const std::optional<SliceReader::Mark> mark = reader->Read(0, out);
  ASSERT_TRUE(mark.has_value());
  EXPECT_EQ(mark->version, 1u);
  EXPECT_TRUE(std::ranges::all_of(out, [](float value) { return value == 1.0f; }));
  munmap(memory, kPages * kPage);
}

}  // namespace
}  // namespace monsoon
