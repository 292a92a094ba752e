#include "common/optimizer/schedule_lengths.h"

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

Schedule Parse(const std::string& text) {
  Schedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule));
  return schedule;
}

std::vector<std::string> Names(const std::string& text) {
  std::vector<std::string> names;
  for (const ScheduleLength& length : LengthsOf(Parse(text))) {
    names.push_back(length.name + (length.needed ? ", needed" : "") +
                    (length.whole ? ", whole" : ""));
  }
  return names;
}

using Strings = std::vector<std::string>;

TEST(ScheduleLengthsTest, EachKindNamesItsOwn) {
  EXPECT_EQ(Names(""), Strings{"warm_up_pushes"});
  EXPECT_EQ(Names("plateau { }"), Strings{"warm_up_pushes"});
  EXPECT_EQ(Names("cosine { }"), (Strings{"cosine.pushes, needed, whole", "warm_up_pushes"}));
  EXPECT_EQ(Names("inverse_root { }"), (Strings{"inverse_root.pushes, needed", "warm_up_pushes"}));
  EXPECT_EQ(Names("step { }"), (Strings{"step.every_pushes, needed", "warm_up_pushes"}));
  EXPECT_EQ(Names("points { point { } point { } }"),
            (Strings{"points.point[0].pushes", "points.point[1].pushes, whole", "warm_up_pushes"}));
}

// A kind that is added has a length that is found, or none at all, as a plateau.
TEST(ScheduleLengthsTest, NoKindIsForgotten) {
  const auto* const kinds = Schedule::descriptor()->FindOneofByName("kind");
  for (int i = 0; i < kinds->field_count(); ++i) {
    const std::string& name = kinds->field(i)->name();
    const size_t lengths = name == "plateau" || name == "points" ? 0u : 1u;
    EXPECT_EQ(LengthsOf(Parse(name + " { }")).size(), 1 + lengths) << name;
  }
}

TEST(ScheduleLengthsTest, AreSetWhereTheyStand) {
  Schedule schedule = Parse(
      "points { point { pushes: 4 factor: 1 } point { share: 0.5 factor: 2 } } warm_up_share: "
      "0.25");
  SetLengths(
      [](const ScheduleLength& length) {
        return length.share > 0 ? static_cast<uint64_t>(100 * length.share) : length.pushes / 2;
      },
      &schedule);
  EXPECT_EQ(schedule.points().point(0).pushes(), 2u);
  EXPECT_EQ(schedule.points().point(1).pushes(), 50u);
  EXPECT_EQ(schedule.warm_up_pushes(), 25u);
}

}  // namespace
}  // namespace monsoon
