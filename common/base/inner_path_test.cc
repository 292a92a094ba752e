#include "common/base/inner_path.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(InnerPathTest, NamesThatStay) {
  for (const char* const name : {"w", "dense1/weight", "a.b.c", "..a/b..", "model.~x", "a/~"}) {
    EXPECT_TRUE(IsInnerPath(name)) << name;
  }
}

TEST(InnerPathTest, NamesThatLeave) {
  for (const absl::string_view name : {"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..",
                                       "a//b", "a/", "./a", "~/x", "~root/x", "a\\..\\b", "a\nb"}) {
    EXPECT_FALSE(IsInnerPath(name)) << name;
  }
  EXPECT_FALSE(IsInnerPath(absl::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace monsoon
