#include "common/collective/member_core.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/collective/simulated_group.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;

using Floats = std::vector<float>;
using Vectors = std::vector<Floats>;

constexpr uint32_t kPart = 24;  // floats; longer vectors have several frames
constexpr uint32_t kLongPart = 200;
constexpr Algorithm kAlgorithms[] = {Algorithm::kNaive, Algorithm::kTree, Algorithm::kRing,
                                     Algorithm::kDirect, Algorithm::kExchange};
constexpr SumOrder kOrders[] = {SumOrder::kFixed, SumOrder::kByRank};

// Of very different sizes, so that another order has other bits.
Vectors Values(uint32_t members, size_t count, uint32_t salt = 0) {
  const PhiloxStream random(7 + salt, StreamKind::kTest, static_cast<uint32_t>(count));
  Vectors vectors(members, Floats(count));
  uint64_t at = 0;
  for (Floats& vector : vectors) {
    for (float& value : vector) {
      value = (random.Uniform(at) - 0.5f) * static_cast<float>(1 << random.Below(at + 1, 20));
      at += 2;
    }
  }
  return vectors;
}

Floats SumByRank(const Vectors& vectors) {
  Floats sum = vectors[0];
  for (size_t rank = 1; rank < vectors.size(); ++rank) {
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = sum[i] + vectors[rank][i];
    }
  }
  return sum;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

void ExpectNear(const Floats& sum, const Vectors& vectors) {
  for (size_t i = 0; i < sum.size(); ++i) {
    double exact = 0, size = 0;
    for (const Floats& vector : vectors) {
      exact += vector[i];
      size += std::abs(static_cast<double>(vector[i]));
    }
    ASSERT_NEAR(sum[i], exact, size * 1e-6) << i;
  }
}

Collective AllReduceOf(size_t count, Algorithm algorithm, SumOrder order) {
  return {Operation::kAllReduce, algorithm, order, 0, count, count < 1000 ? kPart : kLongPart};
}

std::string Label(const Collective& collective, uint32_t members, uint64_t seed) {
  return absl::StrCat(Describe(collective), ", ", members, " members, seed ", seed);
}

// Each algorithm's own bits, which must not depend on anything but membership and length.
class AllReduceTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(AllReduceTest, EachAlgorithmSumsInItsOrderWhateverComesWhen) {
  const uint32_t members = GetParam();
  for (const size_t count : {0, 1, 2, 3, 17, 100, 1000}) {
    const Vectors values = Values(members, count);
    const Floats by_rank = SumByRank(values);
    for (const Algorithm algorithm : kAlgorithms) {
      for (const SumOrder order : kOrders) {
        Floats first;
        for (uint64_t seed = 1; seed <= 2; ++seed) {
          const Collective collective = AllReduceOf(count, algorithm, order);
          SCOPED_TRACE(Label(collective, members, seed));
          SimulatedGroup group(members, {.window = seed == 1 ? 1u : 4u, .seed = seed});
          Vectors vectors = values;
          for (const absl::Status& status : group.Call(collective, &vectors)) {
            ASSERT_OK(status);
          }
          ASSERT_FALSE(group.hung());
          first = seed == 1 ? vectors[0] : first;
          for (const Floats& vector : vectors) {
            ASSERT_TRUE(SameBits(vector, first));
          }
          ASSERT_NO_FATAL_FAILURE(ExpectNear(first, values));
          ASSERT_TRUE(order == SumOrder::kFixed || SameBits(first, by_rank));
        }
      }
    }
  }
}

TEST_P(AllReduceTest, NothingCountsTwiceWhenStreamsBreakAndFramesComeAgain) {
  const uint32_t members = GetParam();
  for (const Algorithm algorithm : kAlgorithms) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const Collective collective = AllReduceOf(300, algorithm, SumOrder::kByRank);
      SCOPED_TRACE(Label(collective, members, seed));
      SimulatedGroup group(members, {.seed = seed, .twice_in = 3, .breaks_in = 20});
      Vectors vectors = Values(members, 300);
      const Floats by_rank = SumByRank(vectors);
      for (const absl::Status& status : group.Call(collective, &vectors)) {
        ASSERT_OK(status);
      }
      ASSERT_FALSE(group.hung());
      for (const Floats& vector : vectors) {
        ASSERT_TRUE(SameBits(vector, by_rank));
      }
    }
  }
}

// A member goes on to its next calls while others are still at the ones before.
TEST_P(AllReduceTest, CallsFollowEachOtherWithoutWaiting) {
  const uint32_t members = GetParam();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    std::vector<Collective> calls;
    std::vector<Vectors> vectors;
    std::vector<Floats> sums;
    for (uint32_t i = 0; i < 12; ++i) {
      const size_t count = 10 + 37 * (i % 4);
      calls.push_back(AllReduceOf(count, kAlgorithms[(i + seed) % 5], SumOrder::kByRank));
      vectors.push_back(Values(members, count, i));
      sums.push_back(SumByRank(vectors.back()));
    }
    SimulatedGroup group(members, {.window = 2, .seed = seed, .breaks_in = 100});
    for (const absl::Status& status : group.Calls(calls, &vectors)) {
      ASSERT_OK(status);
    }
    ASSERT_FALSE(group.hung());
    for (size_t i = 0; i < calls.size(); ++i) {
      for (const Floats& vector : vectors[i]) {
        ASSERT_TRUE(SameBits(vector, sums[i])) << i;
      }
    }
  }
}

TEST_P(AllReduceTest, TheOtherOperationsGiveEachMemberItsFloats) {
  const uint32_t members = GetParam();
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    for (const size_t count : {1, 17, 500}) {
      const Vectors values = Values(members, count);
      const Floats by_rank = SumByRank(values);
      const auto call = [&](Operation operation, SumOrder order, uint32_t root) {
        SimulatedGroup group(members, {.seed = count + root});
        Vectors vectors = values;
        const Collective collective = {
            operation, AlgorithmFor(operation, order, algorithm), order, root, count, kPart};
        for (const absl::Status& status : group.Call(collective, &vectors)) {
          EXPECT_OK(status);
        }
        return vectors;
      };
      for (uint32_t root = 0; root < members; ++root) {
        for (const Floats& vector : call(Operation::kBroadcast, SumOrder::kFixed, root)) {
          ASSERT_TRUE(SameBits(vector, values[root]));
        }
      }
      const Vectors gathered = call(Operation::kAllGather, SumOrder::kFixed, 0);
      const Vectors scattered = call(Operation::kReduceScatter, SumOrder::kByRank, 0);
      for (uint32_t rank = 0; rank < members; ++rank) {
        const Block block = BlockOf(count, members, rank);
        const auto of = [&](const Floats& floats) {
          return std::span(floats).subspan(block.offset, block.count);
        };
        for (const Floats& vector : gathered) {
          ASSERT_TRUE(SameBits(of(vector), of(values[rank])));
        }
        ASSERT_TRUE(SameBits(of(scattered[rank]), of(by_rank)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Members, AllReduceTest, ::testing::Range(1u, 10u),
                         ::testing::PrintToStringParamName());

TEST(LargeGroupTest, SixteenMembersSumByRank) {
  for (const Algorithm algorithm : kAlgorithms) {
    const Collective collective = AllReduceOf(100, algorithm, SumOrder::kByRank);
    SCOPED_TRACE(Describe(collective));
    SimulatedGroup group(16, {});
    Vectors vectors = Values(16, 100);
    const Floats by_rank = SumByRank(vectors);
    for (const absl::Status& status : group.Call(collective, &vectors)) {
      ASSERT_OK(status);
    }
    for (const Floats& vector : vectors) {
      ASSERT_TRUE(SameBits(vector, by_rank));
    }
  }
}

TEST(SumOrderTest, IsWhatTheHeaderSays) {
  // In float 1e8 + 1 is 1e8: the order shows.
  const Vectors values = {{1e8f}, {1.0f}, {-1e8f}, {1.0f}};
  const auto sum = [&](Algorithm algorithm, SumOrder order) {
    SimulatedGroup group(4, {});
    Vectors vectors = values;
    for (const absl::Status& status : group.Call(AllReduceOf(1, algorithm, order), &vectors)) {
      EXPECT_OK(status);
    }
    return vectors[3][0];
  };
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_EQ(sum(algorithm, SumOrder::kByRank), 1.0f) << Name(algorithm);
  }
  EXPECT_EQ(sum(Algorithm::kTree, SumOrder::kFixed), 0.0f);  // (g0 + g1) + (g2 + g3)
  // One line of floats is the last rank's block, whose sum begins at rank 0 and at rank 3.
  EXPECT_EQ(sum(Algorithm::kRing, SumOrder::kFixed), 1.0f);    // ((g0 + g1) + g2) + g3
  EXPECT_EQ(sum(Algorithm::kDirect, SumOrder::kFixed), 0.0f);  // ((g3 + g0) + g1) + g2
}

TEST(BlockTest, BlocksAreWholeLinesInOrder) {
  EXPECT_EQ(BlockOf(100, 3, 0).count, 32u);
  EXPECT_EQ(BlockOf(100, 3, 1).offset, 32u);
  EXPECT_EQ(BlockOf(100, 3, 2).offset, 64u);
  EXPECT_EQ(BlockOf(100, 3, 2).count, 36u);
  EXPECT_EQ(BlockOf(3, 2, 0).count, 0u);
  EXPECT_EQ(BlockOf(3, 2, 1).count, 3u);
}

// The others end with an error that names it, whatever it did last.
TEST(FailureTest, WhoStopsAtAnyMessageIsNamedByAllOthers) {
  for (const uint32_t members : {2, 3, 4}) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const bool killed : {false, true}) {
        // Until none of them gets so far.
        for (uint32_t k = 0, all_through = 0; all_through < members; ++k) {
          const uint32_t stops = k % members;
          const Collective collective = AllReduceOf(100, algorithm, SumOrder::kFixed);
          SCOPED_TRACE(absl::StrCat(Label(collective, members, k), killed ? " killed" : " silent"));
          SimulatedGroup group(
              members,
              {.seed = k + 1, .stops = stops, .stops_after = k / members, .killed = killed});
          Vectors vectors = Values(members, 100);
          const Floats by_rank = SumByRank(vectors);
          const std::vector<absl::Status> statuses = group.Call(collective, &vectors);
          ASSERT_FALSE(group.hung());
          bool all_ok = true;
          for (uint32_t rank = 0; rank < members; ++rank) {
            if (rank != stops && !statuses[rank].ok()) {
              all_ok = false;
              ASSERT_THAT(std::string(statuses[rank].message()),
                          HasSubstr(SimulatedGroup::NameOf(stops)));
            }
          }
          // Some may have had all they needed of it.
          const bool stopped = group.actions(stops) > k / members;
          ASSERT_TRUE(stopped || all_ok);
          all_through = stopped ? 0 : all_through + 1;
          ASSERT_LE(group.now(), absl::Seconds(1) + 2.5 * absl::Seconds(8));
        }
      }
    }
  }
}

}  // namespace
}  // namespace monsoon
