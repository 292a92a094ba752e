// Bits of a larger part, turned over at random.
//
//   random_damage_test --seeds=1..100000     (default: the first 20000, one a bit)
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/random.h"
#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/test_parts.h"
#include "common/storage/simulated_storage.h"
#include "common/testing/seeds.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::MakeTestJob;
using testing::StatusIs;
using testing::WriteTestPart;

constexpr char kManifest[] = "/f/ps-1-of-2.g5.e1.manifest";
constexpr char kFile[] = "/f/ps-1-of-2.g5.e1.safetensors";

testing::Seeds flips = testing::FirstSeeds(20000);

absl::Status Read(const Storage& storage) {
  const auto part = PartReader::Open(&storage, kManifest);
  return part.ok() ? (*part)->Verify() : part.status();
}

void TurnBits(const testing::TestJob& job, uint32_t least_bytes) {
  SimulatedStorage storage;
  ASSERT_OK(WriteTestPart(&storage, "/f", job, 1, 5));
  const PhiloxStream random(3, StreamKind::kTest);
  const uint32_t bytes = static_cast<uint32_t>((*storage.Open(kFile))->bytes());
  ASSERT_GT(bytes, least_bytes);
  for (uint64_t i = flips.first; i < flips.end; ++i) {
    const uint64_t offset = random.Below(2 * i, bytes);
    const int bit = static_cast<int>(random.Below(2 * i + 1, 8));
    storage.CorruptByte(kFile, offset, bit);
    EXPECT_THAT(Read(storage), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kFile)))
        << "byte " << offset << " bit " << bit;
    storage.CorruptByte(kFile, offset, bit);
  }
  EXPECT_OK(Read(storage));
}

TEST(RandomDamageTest, NoChangedBitIsAccepted) {
  TurnBits(MakeTestJob({.model = testing::kConvModel, .vectors = 2}), 5000);
}

TEST(RandomDamageTest, NoChangedBitOfAPartWithTablesIsAccepted) {
  TurnBits(MakeTestJob({.model = testing::kTablesModel, .vectors = 1}), 1500);
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  return monsoon::testing::RunWithSeeds(argc, argv, &monsoon::flips);
}
