#include "worker/downpour/row_sums.h"

#include <gtest/gtest.h>

#include <vector>

namespace monsoon {
namespace {

using Rows = std::vector<uint64_t>;
using Floats = std::vector<float>;

TEST(RowSumsTest, AddsUpRowsOfSeveralStepsAndOfOne) {
  RowSums sums;
  EXPECT_TRUE(sums.empty());
  sums.Add(3, Rows{7, 2, 7}, Floats{1, 2, 10, 20, 100, 200});
  sums.Add(3, Rows{}, Floats{});
  RowSums step;
  step.Add(3, Rows{1, 2, 9}, Floats{5, 6, 1, 1, 7, 8});
  step.Add(0, Rows{4}, Floats{0.5f});
  sums.Add(step);
  const std::vector<RowGradient> view = sums.View();
  ASSERT_EQ(view.size(), 2u);
  EXPECT_EQ(view[0].table, 0u);
  EXPECT_EQ(Rows(view[0].rows.begin(), view[0].rows.end()), Rows{4});
  EXPECT_EQ(view[1].table, 3u);
  EXPECT_EQ(Rows(view[1].rows.begin(), view[1].rows.end()), (Rows{1, 2, 7, 9}));
  EXPECT_EQ(Floats(view[1].values.begin(), view[1].values.end()),
            (Floats{5, 6, 11, 21, 101, 202, 7, 8}));
  sums.Clear();
  EXPECT_TRUE(sums.empty());
}

}  // namespace
}  // namespace monsoon
