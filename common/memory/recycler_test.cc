#include "common/memory/recycler.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(RecyclerTest, GivesOutAgainWhatWasDropped) {
  Recycler<std::string> recycler(1);
  std::shared_ptr<std::string> first = recycler.Take();
  *first = "used";
  const std::string* const where = first.get();
  std::shared_ptr<std::string> second = recycler.Take();
  EXPECT_NE(second.get(), where);
  first.reset();
  EXPECT_EQ(recycler.Take().get(), where);
  EXPECT_EQ(*recycler.Take(), "used");
}

TEST(RecyclerTest, KeepsNoMoreThanItMay) {
  Recycler<std::string> recycler(1);
  std::shared_ptr<std::string> first = recycler.Take(), second = recycler.Take();
  *first = *second = "used";
  first.reset();
  second.reset();
  const std::shared_ptr<std::string> kept = recycler.Take();
  EXPECT_EQ(*kept, "used");
  EXPECT_EQ(*recycler.Take(), "");
}

TEST(RecyclerTest, IsOutlivedByItsObjects) {
  std::optional<Recycler<std::string>> recycler(std::in_place, 1);
  const std::shared_ptr<std::string> object = recycler->Take();
  recycler.reset();
  *object = "still here";
}

}  // namespace
}  // namespace monsoon
