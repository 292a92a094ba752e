#include "ps_server/shard/absent_tensors.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Parts = std::vector<OptimizerKernel::PushPart>;

// "0-8/0 32-40/2": where each part lies, and of how many pushes it had no gradient.
std::string Text(const Parts& parts) {
  std::string text;
  for (const auto& part : parts) {
    text += (text.empty() ? "" : " ") + std::to_string(part.begin) + "-" +
            std::to_string(part.end) + "/" + std::to_string(part.absent);
  }
  return text;
}

std::string Without(const AbsentTensors& tensors, const std::vector<uint32_t>& absent) {
  return Text(tensors.PartsWithout(absent));
}

AbsentTensors Three() { return AbsentTensors({{2, {0, 10}}, {3, {16, 20}}, {4, {32, 48}}}); }

TEST(AbsentTensorsTest, NeighboursThatCountAlikeAreOnePart) {
  AbsentTensors tensors = Three();
  EXPECT_TRUE(tensors.none());
  EXPECT_EQ(Without(tensors, {}), "0-48/0");
  EXPECT_EQ(Without(tensors, {0, 1, 5}), "0-48/0") << "none of the stripe's";
  EXPECT_EQ(Without(tensors, {3}), "0-10/0 32-48/0");
  EXPECT_EQ(Without(tensors, {2, 3, 4}), "");
  tensors.Count({{1, 5}});
  EXPECT_TRUE(tensors.none());
  tensors.Count({{2, 3}});
  EXPECT_FALSE(tensors.none());
  EXPECT_EQ(Without(tensors, {}), "0-20/1 32-48/0");
  tensors.Count({{2}});
  EXPECT_EQ(Without(tensors, {}), "0-10/2 16-20/1 32-48/0");
  tensors.Clear();
  EXPECT_EQ(Without(tensors, {}), "0-48/0");
}

TEST(AbsentTensorsTest, ARecordBringsTheCountsBack) {
  AbsentTensors tensors = Three();
  tensors.Count({{3, 4}});
  tensors.Count({{4}});
  StripeRecord record;
  record.set_version(9);
  tensors.AddTo(&record);
  EXPECT_EQ(record.absent_size(), 2);
  AbsentTensors restored = Three();
  restored.Count({{2}});
  restored.Restore(record);
  EXPECT_EQ(Without(restored, {}), "0-10/0 16-20/1 32-48/2");
}

TEST(AbsentTensorsTest, ARecordOfOtherTensorsOrTooManyPushesDoesNoHarm) {
  StripeRecord record;
  record.set_version(3);
  for (const uint32_t tensor : {3u, 77u}) {
    AbsentPushes* const absent = record.add_absent();
    absent->set_tensor(tensor);
    absent->set_pushes(1000);
  }
  AbsentTensors tensors = Three();
  tensors.Restore(record);
  EXPECT_EQ(Without(tensors, {}), "0-10/0 16-20/3 32-48/0");
}

}  // namespace
}  // namespace monsoon
