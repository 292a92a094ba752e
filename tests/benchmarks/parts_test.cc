// What the benchmarks rest on: that a wrong result is seen, that turns are
// fair, and that the meters read what they say.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/process/unique_fd.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/benchmarks/expected_model.h"
#include "tests/benchmarks/in_place.h"
#include "tests/benchmarks/meters.h"
#include "tests/benchmarks/rounds.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kFloats = 100'003;  // a last period that is cut

void AddOne(uint64_t, std::span<float> w, std::span<float> state, std::span<const float> g) {
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] += 1;
    state[i] += g[i];
  }
}

TEST(ExpectedModelTest, FollowsPushesAndSeesEveryWrongFloat) {
  ExpectedModel model;
  std::vector<float> found(kFloats);
  ExpectedModel::Fill(model.parameters(), found);
  EXPECT_OK(model.CheckAll(found));
  model.Push(AddOne);
  EXPECT_THAT(model.CheckAll(found),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("instead of")));
  std::for_each(found.begin(), found.end(), [](float& value) { value += 1; });
  EXPECT_OK(model.CheckAll(found));
  EXPECT_OK(model.CheckSamples(found));
  for (const size_t index : {size_t{0}, size_t{1023}, size_t{54'321}, kFloats - 1}) {
    const float kept = found[index];
    found[index] += 1;
    EXPECT_THAT(model.CheckAll(found),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(std::to_string(index))));
    found[index] = kept;
  }
}

TEST(ExpectedModelTest, SeesWhatAFetchLeftOut) {
  constexpr size_t kPiece = 16 * ExpectedModel::kPeriod;  // 64 KiB
  const ExpectedModel model;
  std::vector<float> found(kFloats);
  const auto whole = std::span(found);
  ExpectedModel::Fill(model.parameters(), whole);
  EXPECT_OK(model.CheckSamples(whole));
  ExpectedModel::Spoil(whole);
  // A piece in the middle is missing.
  ExpectedModel::Fill(model.parameters(), whole.first(kPiece));
  ExpectedModel::Fill(model.parameters(), whole.subspan(2 * kPiece));
  EXPECT_THAT(model.CheckSamples(whole), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("16384")));
  // The end is missing.
  ExpectedModel::Spoil(whole);
  ExpectedModel::Fill(model.parameters(), whole.first(kFloats - 1));
  EXPECT_THAT(model.CheckSamples(whole),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("100002")));
}

TEST(RoundsTest, EverybodyComesFirstInTurn) {
  std::string order;
  std::vector<Contender> contenders;
  for (const char* name : {"a", "b", "c"}) {
    Contender contender;
    contender.name = name;
    contender.operate = [&order, name] {
      order += name;
      return absl::OkStatus();
    };
    contenders.push_back(contender);
  }
  Workload workload = {.name = "test", .bytes = 8};
  EXPECT_OK(RunRounds(3, {.operations = 1, .seconds = 0}, contenders, &workload));
  EXPECT_EQ(order, "abcabcbcacab");  // once to warm up
  for (const Contender& contender : contenders) {
    EXPECT_EQ(workload.contenders[contender.name].size(), 3u);
  }
  EXPECT_THAT(ToJson({workload}), HasSubstr(R"("name":"test","bytes":8)"));
}

TEST(RoundsTest, CallsEachPartAndStopsAtAWrongResult) {
  std::vector<std::string> calls;
  Contender contender;
  contender.name = "wrong";
  const auto note = [&calls](const char* what) {
    return [&calls, what] {
      calls.push_back(what);
      return calls.size() < 9 ? absl::OkStatus() : absl::DataLossError("another value");
    };
  };
  contender.prepare = note("prepare");
  contender.operate = note("operate");
  contender.check = note("check");
  contender.finish = note("finish");
  Workload workload;
  EXPECT_THAT(RunRounds(2, {.operations = 1, .seconds = 0}, {contender}, &workload),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("wrong: another value")));
  EXPECT_THAT(calls, ElementsAre("prepare", "operate", "check",            // to warm up
                                 "prepare", "operate", "check", "finish",  //
                                 "prepare", "operate"));
}

TEST(InPlaceTest, AllKernelsDoTheSame) {
  const ExpectedModel start;
  for (const InPlaceKernel& kernel : InPlaceKernels()) {
    std::vector<float> w = start.parameters(), state = start.state();
    constexpr size_t kSize = 1021;  // not a multiple of any vector
    kernel.apply(std::span(w).first(kSize), std::span(state).first(kSize),
                 std::span(start.gradient()).first(kSize));
    EXPECT_EQ(w[kSize], start.parameters()[kSize]);
    for (size_t i = 0; i < kSize; ++i) {
      const float g = start.gradient()[i];
      ASSERT_FLOAT_EQ(w[i], start.parameters()[i] - 0.01f * g) << kernel.name;
      ASSERT_FLOAT_EQ(state[i], g * g) << kernel.name;
    }
  }
}

TEST(MetersTest, SharedMemoryIsSeenWhileItIsMapped) {
  const UniqueFd file(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  EXPECT_FALSE(ShareMemoryFile(getpid(), getpid()));
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_TRUE(ShareMemoryFile(getpid(), getpid()));
  EXPECT_FALSE(ShareMemoryFile(getpid(), getppid()));
  munmap(memory, 4096);
  EXPECT_FALSE(ShareMemoryFile(getpid(), getpid()));
}

TEST(MetersTest, CpuSecondsAndMemoryOfAProcess) {
  const double wall = NowSeconds(), before = CpuSeconds(0);
  while (CpuSeconds(0) < before + 0.01) {
  }
  EXPECT_GE(NowSeconds() - wall, 0.01);
  EXPECT_GE(CpuSeconds(getpid()), before + 0.01);
  EXPECT_GT(ProcessMemory(getpid(), "VmRSS"), 0u);
  EXPECT_GE(ProcessMemory(getpid(), "VmHWM"), ProcessMemory(getpid(), "VmRSS") / 2);
  EXPECT_EQ(ProcessMemory(getpid(), "VmNothing"), 0u);
}

}  // namespace
}  // namespace monsoon
