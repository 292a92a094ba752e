#include "coordinator/lbfgs/local_vector_space.h"

#include <cmath>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LocalVectorSpaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const double x[] = {1.0, 2.0, 3.0};
    const double y[] = {4.0, -5.0, 6.0};
    ASSERT_OK(space_.Write("x", x));
    ASSERT_OK(space_.Write("y", y));
  }
  // The error of an operation that was kept.
  absl::Status Now(absl::Status kept) { return kept.ok() ? space_.Flush() : kept; }
  std::vector<double> Get(const std::string& name) {
    EXPECT_OK(space_.Flush());
    auto read = space_.Read(name);
    EXPECT_OK(read);
    return read.ok() ? std::vector<double>(read->begin(), read->end()) : std::vector<double>();
  }
  LocalVectorSpace space_{3, LocalVectorSpace::Precision::kDouble};
};

TEST_F(LocalVectorSpaceTest, EveryOperationWritesWhatItSays) {
  ASSERT_OK(space_.Fill("fill", 2.5));
  EXPECT_THAT(Get("fill"), ElementsAre(2.5, 2.5, 2.5));
  ASSERT_OK(space_.Copy("copy", "x"));
  EXPECT_THAT(Get("copy"), ElementsAre(1.0, 2.0, 3.0));
  ASSERT_OK(space_.Scale("scale", -2.0, "x"));
  EXPECT_THAT(Get("scale"), ElementsAre(-2.0, -4.0, -6.0));
  ASSERT_OK(space_.Axpy("axpy", 0.5, "x", "y"));
  EXPECT_THAT(Get("axpy"), ElementsAre(4.5, -4.0, 7.5));
  ASSERT_OK(space_.Multiply("multiply", "x", "y"));
  EXPECT_THAT(Get("multiply"), ElementsAre(4.0, -10.0, 18.0));
  ASSERT_OK_AND_ASSIGN(const double dot, space_.Dot("x", "y"));
  EXPECT_EQ(dot, 12.0);
  ASSERT_OK_AND_ASSIGN(const std::vector<double> dots,
                       space_.Combine("combine", {{2.0, "x"}, {-1.0, "y"}}, {"x", "y"}));
  EXPECT_THAT(Get("combine"), ElementsAre(-2.0, 9.0, 0.0));
  EXPECT_THAT(dots, ElementsAre(16.0, -53.0));
  ASSERT_OK_AND_ASSIGN(const std::vector<double> gram, space_.Gram({"y", "x"}, {"x", "y"}));
  EXPECT_THAT(gram, ElementsAre(12.0, 77.0, 14.0, 12.0));
  EXPECT_EQ(space_.round_trips(), 8u);
}

TEST_F(LocalVectorSpaceTest, PublishesToTheParametersAndCopiesFromThem) {
  ASSERT_OK(space_.Copy("before", ""));
  EXPECT_THAT(Get("before"), ElementsAre(0.0, 0.0, 0.0));
  ASSERT_OK(Now(space_.Publish("y")));
  EXPECT_THAT(space_.parameters(), ElementsAre(4.0, -5.0, 6.0));
  ASSERT_OK(space_.Copy("after", ""));
  EXPECT_THAT(Get("after"), ElementsAre(4.0, -5.0, 6.0));
}

TEST_F(LocalVectorSpaceTest, UniformDependsOnSeedStreamAndIndexOnly) {
  ASSERT_OK(space_.Uniform("u", 7, 1, -1.0, 1.0));
  ASSERT_OK(space_.Uniform("same", 7, 1, -1.0, 1.0));
  ASSERT_OK(space_.Uniform("other", 7, 2, -1.0, 1.0));
  EXPECT_EQ(Get("u"), Get("same"));
  EXPECT_NE(Get("u"), Get("other"));
  LocalVectorSpace longer(5, LocalVectorSpace::Precision::kDouble);
  ASSERT_OK(longer.Uniform("u", 7, 1, -1.0, 1.0));
  ASSERT_OK(longer.Flush());
  ASSERT_OK_AND_ASSIGN(const std::span<const double> prefix, longer.Read("u"));
  const std::vector<double> u = Get("u");
  for (size_t i = 0; i < u.size(); ++i) {
    EXPECT_EQ(u[i], prefix[i]);
    EXPECT_GE(u[i], -1.0);
    EXPECT_LT(u[i], 1.0);
  }
}

TEST_F(LocalVectorSpaceTest, RefusesToWriteInPlaceOrOverAName) {
  const auto refused = StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"x\""));
  EXPECT_THAT(Now(space_.Scale("x", 2.0, "x")), refused);
  EXPECT_THAT(Now(space_.Axpy("x", 2.0, "x", "y")), refused);
  EXPECT_THAT(Now(space_.Multiply("x", "x", "y")), refused);
  EXPECT_THAT(Now(space_.Fill("x", 0.0)), refused);
  EXPECT_THAT(Now(space_.Copy("x", "y")), refused);
  EXPECT_THAT(Now(space_.Uniform("x", 1, 1, 0.0, 1.0)), refused);
  EXPECT_THAT(space_.Combine("x", {{1.0, "x"}}, {}).status(), refused);
  EXPECT_THAT(Get("x"), ElementsAre(1.0, 2.0, 3.0));
}

TEST_F(LocalVectorSpaceTest, NamesAVectorThatDoesNotExist) {
  const auto missing = StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"z\""));
  EXPECT_THAT(Now(space_.Scale("o", 2.0, "z")), missing);
  EXPECT_THAT(Now(space_.Axpy("o", 2.0, "x", "z")), missing);
  EXPECT_THAT(space_.Dot("z", "x").status(), missing);
  EXPECT_THAT(space_.Combine("o", {{1.0, "x"}}, {"z"}).status(), missing);
  EXPECT_THAT(space_.Gram({"x"}, {"z"}).status(), missing);
  EXPECT_THAT(Now(space_.Publish("z")), missing);
  EXPECT_EQ(space_.live_vectors(), 2u);
  EXPECT_THAT(Now(space_.Fill("", 1.0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(Now(space_.Uniform("u", 1, 1, 2.0, 2.0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, 2)")));
  const double two[] = {1.0, 2.0};
  EXPECT_THAT(space_.Write("w", two),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 elements, not 2")));
}

TEST_F(LocalVectorSpaceTest, FreesWithTheNextOperationAfterItHasRead) {
  space_.Free("x");
  space_.Free("unknown");
  EXPECT_EQ(space_.round_trips(), 0u);
  ASSERT_OK(space_.Scale("o", 2.0, "x"));
  EXPECT_THAT(Get("o"), ElementsAre(2.0, 4.0, 6.0));
  EXPECT_THAT(space_.Read("x").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("x")));
  EXPECT_EQ(space_.round_trips(), 1u);
  ASSERT_OK(space_.Flush());
  EXPECT_EQ(space_.round_trips(), 1u) << "nothing was pending";
  space_.Free("y");
  EXPECT_THAT(space_.Dot("y", "nothing").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nothing")));
  EXPECT_EQ(space_.live_vectors(), 2u);
  ASSERT_OK(space_.Flush());
  EXPECT_EQ(space_.live_vectors(), 1u) << "a failed operation frees nothing, the next one does";
}

TEST_F(LocalVectorSpaceTest, CarriesOutWhatIsKeptInItsTurnWithOneMessage) {
  ASSERT_OK(space_.Scale("a", 2.0, "x"));
  space_.Free("x");
  ASSERT_OK(space_.Axpy("b", 1.0, "a", "x"));  // reads x, and frees it afterwards
  ASSERT_OK(space_.Publish("b"));
  EXPECT_EQ(space_.live_vectors(), 2u);
  EXPECT_EQ(space_.round_trips(), 0u);
  ASSERT_OK_AND_ASSIGN(const double dot, space_.Dot("a", "b"));
  EXPECT_EQ(dot, 6.0 * 14.0);
  EXPECT_EQ(space_.round_trips(), 1u);
  EXPECT_THAT(space_.parameters(), ElementsAre(3.0, 6.0, 9.0));
  EXPECT_THAT(space_.Read("x").status(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("x")));
}

TEST_F(LocalVectorSpaceTest, AnErrorOfWhatIsKeptComesWithTheAnswer) {
  ASSERT_OK(space_.Scale("o", 2.0, "z"));
  EXPECT_THAT(space_.Dot("x", "y").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"z\"")));
}

TEST_F(LocalVectorSpaceTest, OwnedVectorsFreeThemselvesOnce) {
  {
    OwnedVector a = OwnedVector::New(&space_, "v");
    OwnedVector b = OwnedVector::New(&space_, "v");
    EXPECT_NE(a.name(), b.name());
    ASSERT_OK(space_.Fill(a.name(), 1.0));
    ASSERT_OK(space_.Fill(b.name(), 2.0));
    a = std::move(b);
    ASSERT_OK(space_.Flush());
    EXPECT_EQ(space_.live_vectors(), 3u);
    EXPECT_THAT(Get(a.name()), ElementsAre(2.0, 2.0, 2.0));
  }
  ASSERT_OK(space_.Flush());
  EXPECT_EQ(space_.live_vectors(), 2u);
  OwnedVector kept(&space_, "x");
  EXPECT_EQ(kept.Release(), "x");
  kept.Reset();
  ASSERT_OK(space_.Flush());
  EXPECT_EQ(space_.live_vectors(), 2u);
  EXPECT_EQ(space_.peak_vectors(), 4u);
}

TEST(LocalVectorSpaceFloat32Test, RoundsOnceWhenItStores) {
  LocalVectorSpace space(2, LocalVectorSpace::Precision::kFloat32);
  EXPECT_EQ(space.unit_roundoff(), 0x1p-24);
  const double values[] = {0.1, 1.0 + 0x1p-30};
  ASSERT_OK(space.Write("x", values));
  ASSERT_OK_AND_ASSIGN(const std::span<const double> x, space.Read("x"));
  EXPECT_EQ(x[0], static_cast<double>(0.1f));
  EXPECT_EQ(x[1], 1.0);
  // The products are summed in double: 1 + 2^-26 has no float32.
  const double small[] = {0x1p-13, 1.0};
  ASSERT_OK(space.Write("small", small));
  ASSERT_OK_AND_ASSIGN(const double dot, space.Dot("small", "small"));
  EXPECT_THAT(dot, DoubleEq(1.0 + 0x1p-26));
}

}  // namespace
}  // namespace monsoon
