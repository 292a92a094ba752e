#include "ps_server/vector/vector_store.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/vector/vector_kernels.h"
#include "ps_server/vector/vector_store_fixture.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kBegin;
using testing::kFloats;
using testing::kStripe;
using testing::kVectorBytes;
using testing::Shape;
using testing::Vector;
using testing::VectorStoreTest;

// Per stripe, then in the order of the stripes.
double DotByStripes(const Vector& x, const Vector& y) {
  double sum = 0.0;
  for (size_t begin = 0; begin < x.size(); begin += kStripe) {
    const size_t size = std::min(kStripe, x.size() - begin);
    sum += DotVectors(std::span(x).subspan(begin, size), std::span(y).subspan(begin, size));
  }
  return sum;
}

TEST_F(VectorStoreTest, FillKeepsPaddingZero) {
  ASSERT_OK(Fill("ones", 1.0));
  Vector expected(kFloats, 1.0f);
  std::fill_n(expected.begin() + 60, 4, 0.0f);
  EXPECT_EQ(Get("ones"), expected);
}

TEST_F(VectorStoreTest, UniformIsAFunctionOfTheGlobalIndex) {
  ASSERT_OK(Uniform("u", 3, -2.0, 3.0));
  const Vector u = Get("u");
  const PhiloxStream stream(5, StreamKind::kSynthetic, 3);
  for (size_t i = 0; i < kFloats; ++i) {
    const double value = -2.0 + 5.0 * static_cast<double>(stream.Uniform(kBegin + i));
    EXPECT_EQ(u[i], i >= 60 && i < 64 ? 0.0f : static_cast<float>(value)) << i;
  }
  // The same of a slice that is cut elsewhere.
  VectorStore other(Shape(kBegin + 128, 64), &parameters_, &budget_);
  VectorRequest request;
  request.set_op_id(1);
  *request.mutable_uniform() = [] {
    VectorUniform uniform;
    uniform.set_out("u");
    uniform.set_seed(5);
    uniform.set_stream(3);
    uniform.set_low(-2.0);
    uniform.set_high(3.0);
    return uniform;
  }();
  ASSERT_OK(other.Execute(request));
  const auto part = *other.Find("u");
  EXPECT_EQ(Vector(part->data(), part->data() + 64), Vector(u.begin() + 128, u.begin() + 192));
}

TEST_F(VectorStoreTest, UniformStaysBelowItsUpperEnd) {
  // Neighbours in float32: every value rounds to one of the two.
  const float low = 1.0f, high = std::nextafter(1.0f, 2.0f);
  ASSERT_OK(Uniform("u", 0, low, high));
  for (const float value : Get("u")) {
    EXPECT_TRUE(value == low || value == 0.0f);
  }
  EXPECT_EQ(Uniform("v", 0, 1.0, 1.0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Uniform("v", 0, 1.0, 1e300).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(VectorStoreTest, ElementwiseOperationsMatchTheirKernels) {
  ASSERT_OK(Uniform("x", 1));
  ASSERT_OK(Uniform("y", 2));
  const Vector x = Get("x"), y = Get("y");
  VectorRequest scale = Next();
  scale.mutable_scale()->set_out("scale");
  scale.mutable_scale()->set_in("x");
  scale.mutable_scale()->set_factor(-0.3);
  ASSERT_OK(Run(scale));
  VectorRequest axpy = Next();
  axpy.mutable_axpy()->set_out("axpy");
  axpy.mutable_axpy()->set_factor(0.7);
  axpy.mutable_axpy()->set_x("x");
  axpy.mutable_axpy()->set_y("y");
  ASSERT_OK(Run(axpy));
  VectorRequest multiply = Next();
  multiply.mutable_multiply()->set_out("multiply");
  multiply.mutable_multiply()->set_x("x");
  multiply.mutable_multiply()->set_y("y");
  ASSERT_OK(Run(multiply));
  VectorRequest copy = Next();
  copy.mutable_copy()->set_out("copy");
  copy.mutable_copy()->set_in("y");
  ASSERT_OK(Run(copy));
  Vector expected(kFloats);
  ScaleVector(-0.3, x, expected);
  EXPECT_EQ(Get("scale"), expected);
  AxpyVector(0.7, x, y, expected);
  EXPECT_EQ(Get("axpy"), expected);
  MultiplyVectors(x, y, expected);
  EXPECT_EQ(Get("multiply"), expected);
  EXPECT_EQ(Get("copy"), y);
  EXPECT_EQ(Get("x"), x);
}

// The largest that fitted into a request held a shard of 25 million floats for a minute.
TEST_F(VectorStoreTest, AnOperationOfManyPassesIsRefused) {
  ASSERT_OK(Uniform("x", 0, -3.0, 5.0));
  VectorRequest gram = Next();
  for (int i = 0; i < 16; ++i) {
    gram.mutable_gram()->add_row("x");
    gram.mutable_gram()->add_column("x");
  }
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, Run(gram));
  EXPECT_EQ(reply.scalar_size(), 256);
  gram = Next();
  for (int i = 0; i < 64; ++i) {
    gram.mutable_gram()->add_row("x");
    gram.mutable_gram()->add_column("x");
  }
  EXPECT_THAT(Run(gram), StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("in 4096 passes, the limit is 256")));
  VectorRequest combine = gram;
  combine.mutable_combine()->set_out("sum");
  for (int i = 0; i < 256; ++i) {
    combine.mutable_combine()->add_in("x");
    combine.mutable_combine()->add_factor(0.5);
  }
  combine.mutable_combine()->add_dot_with("x");
  EXPECT_THAT(Run(combine), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("in 257 passes, the limit is 256")));
}

TEST_F(VectorStoreTest, ScalarsAreSummedInTheOrderOfTheStripes) {
  for (const uint32_t k : {0u, 1u, 2u}) {
    ASSERT_OK(Uniform(std::string(1, static_cast<char>('x' + k)), k, -3.0, 5.0));
  }
  const Vector x = Get("x"), y = Get("y"), z = Get("z");
  VectorRequest dot = Next();
  dot.mutable_dot()->set_x("x");
  dot.mutable_dot()->set_y("y");
  ASSERT_OK_AND_ASSIGN(const VectorReply dot_reply, Run(dot));
  ASSERT_EQ(dot_reply.scalar_size(), 1);
  EXPECT_EQ(dot_reply.scalar(0), DotByStripes(x, y));
  VectorRequest gram = Next();
  for (const char* row : {"x", "z"}) {
    gram.mutable_gram()->add_row(row);
  }
  for (const char* column : {"x", "y", "z"}) {
    gram.mutable_gram()->add_column(column);
  }
  ASSERT_OK_AND_ASSIGN(const VectorReply gram_reply, Run(gram));
  ASSERT_EQ(gram_reply.scalar_size(), 6);
  EXPECT_EQ(gram_reply.scalar(1), DotByStripes(x, y));
  EXPECT_EQ(gram_reply.scalar(3), DotByStripes(z, x));
  EXPECT_EQ(gram_reply.scalar(5), DotByStripes(z, z));
  VectorRequest combine = Next();
  for (const auto& [name, factor] : {std::pair("x", 0.1), {"y", -2.0}, {"z", 1e-3}}) {
    combine.mutable_combine()->add_in(name);
    combine.mutable_combine()->add_factor(factor);
  }
  combine.mutable_combine()->set_out("sum");
  combine.mutable_combine()->add_dot_with("x");
  combine.mutable_combine()->add_dot_with("z");
  ASSERT_OK_AND_ASSIGN(const VectorReply combine_reply, Run(combine));
  const Vector sum = Get("sum");
  for (size_t i = 0; i < kFloats; ++i) {
    const double value = (0.0 + 0.1 * static_cast<double>(x[i])) +
                         -2.0 * static_cast<double>(y[i]) + 1e-3 * static_cast<double>(z[i]);
    EXPECT_EQ(sum[i], static_cast<float>(value));
  }
  ASSERT_EQ(combine_reply.scalar_size(), 2);
  EXPECT_EQ(combine_reply.scalar(0), DotByStripes(sum, x));
  EXPECT_EQ(combine_reply.scalar(1), DotByStripes(sum, z));
}

TEST_F(VectorStoreTest, CopiesAndPublishesTheParameters) {
  ASSERT_OK(Uniform("x", 1));
  parameters_.values = Vector(kFloats, 4.0f);
  VectorRequest copy = Next();
  copy.mutable_copy()->set_out("w");
  ASSERT_OK(Run(copy));
  EXPECT_EQ(Get("w")[0], 4.0f);
  EXPECT_EQ(Get("w")[kFloats - 1], 4.0f);
  VectorRequest publish = Next();
  publish.mutable_publish()->set_in("x");
  ASSERT_OK(Run(publish));
  EXPECT_EQ(parameters_.values, Get("x"));
}

TEST_F(VectorStoreTest, ARepeatedOperationIsAnsweredAndNotDoneAgain) {
  ASSERT_OK(Fill("x", 2.0));
  VectorRequest axpy = Next();
  axpy.mutable_axpy()->set_out("y");
  axpy.mutable_axpy()->set_factor(1.0);
  axpy.mutable_axpy()->set_x("x");
  axpy.mutable_axpy()->set_y("x");
  axpy.add_free("x");
  axpy.add_free("never there");
  ASSERT_OK_AND_ASSIGN(const VectorReply first, Run(axpy));
  EXPECT_EQ(first.memory_bytes(), kVectorBytes);
  // "x" is gone, so a second time could not succeed.
  ASSERT_OK_AND_ASSIGN(const VectorReply second, store_.Execute(axpy));
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  axpy.mutable_axpy()->set_factor(2.0);
  EXPECT_THAT(store_.Execute(axpy),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("other content")));
  VectorRequest gap = Next();
  gap.set_op_id(9);
  gap.mutable_only_free();
  EXPECT_THAT(store_.Execute(gap),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job-1")));
}

TEST_F(VectorStoreTest, AnOperationThatFailsChangesNothingAndKeepsItsId) {
  ASSERT_OK(Fill("x", 2.0));
  const Vector before = Get("x");
  // In place, and on another vector in use.
  VectorRequest scale = Next();
  scale.mutable_scale()->set_out("x");
  scale.mutable_scale()->set_in("x");
  scale.mutable_scale()->set_factor(3.0);
  scale.add_free("x");
  EXPECT_THAT(Run(scale), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"x\"")));
  EXPECT_EQ(Get("x"), before);
  scale.mutable_scale()->set_in("y");
  scale.mutable_scale()->set_out("z");
  EXPECT_THAT(Run(scale),
              StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("job-1"), HasSubstr("\"y\""))));
  scale.mutable_scale()->set_in("x");
  scale.mutable_scale()->set_factor(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Run(scale).status().code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\nb"), std::string(33, 'a')}) {
    EXPECT_EQ(Fill(name, 1.0).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  VectorRequest nothing = Next();
  EXPECT_EQ(Run(nothing).status().code(), absl::StatusCode::kInvalidArgument);
  VectorRequest long_one = Next();
  long_one.mutable_only_free();
  long_one.add_free(std::string(VectorStore::kMaxRequestBytes, 'x'));
  EXPECT_EQ(Run(long_one).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(budget_.used(), VectorCost(kVectorBytes) + logged_);
  EXPECT_EQ(last_id_, 1u);
  ASSERT_OK(Fill(std::string(32, 'a'), 1.0));  // the second operation
}

TEST_F(VectorStoreTest, MemoryIsAdmittedAndComesBack) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(Fill(absl::StrCat("v", i), i));
  }
  const uint64_t used = 20 * VectorCost(kVectorBytes) + logged_;
  EXPECT_EQ(budget_.used(), used);
  // There is room for one more, but not for its record too.
  ASSERT_OK_AND_ASSIGN(
      const MemoryBudget::Reservation others,
      budget_.Reserve(kBudget - used - VectorCost(kVectorBytes), "somebody", "something"));
  EXPECT_THAT(Fill("more", 1.0),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(absl::StrCat("over the limit of ", kBudget)),
                             HasSubstr("memory_limit_mib"), HasSubstr("\"more\""))));
  EXPECT_EQ(Open(1, 10, false).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_OK_AND_ASSIGN(const auto held, store_.Find("v3"));
  ASSERT_OK_AND_ASSIGN(const VectorReply reply, Free({"v3", "v4", "v5"}));
  EXPECT_EQ(reply.memory_bytes(), 17 * kVectorBytes);
  EXPECT_EQ(store_.Find("v3").status().code(), absl::StatusCode::kNotFound);
  // A reader still holds one of them.
  EXPECT_EQ(held->data()[0], 3.0f);
  EXPECT_EQ(budget_.used(), 18 * VectorCost(kVectorBytes) + others.bytes() + logged_);
  ASSERT_OK(Fill("more", 1.0));
}

TEST_F(VectorStoreTest, AFillOfTheWeightsLeavesBiasesAndPaddingZero) {
  VectorRequest request = Next();
  request.mutable_fill()->set_out("mask");
  request.mutable_fill()->set_value(1.0);
  request.mutable_fill()->set_weights_only(true);
  ASSERT_OK(Run(request));
  const Vector mask = Get("mask");
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(mask[i], i >= 50 && i < 64 ? 0.0f : 1.0f) << i;
  }
  ASSERT_OK(Fill("all", 1.0));
  EXPECT_EQ(Get("all")[55], 1.0f);
}

TEST_F(VectorStoreTest, ASelectionIsByIndexAndBySize) {
  const auto select = [&](const std::string& out, uint64_t begin, uint64_t end, double low,
                          double high) {
    VectorRequest request = Next();
    VectorSelect* const select = request.mutable_select();
    select->set_out(out);
    select->set_in("in");
    select->set_by("by");
    select->set_begin(begin);
    select->set_end(end);
    select->set_low(low);
    select->set_high(high);
    return Run(request).status();
  };
  VectorRequest by = Next();
  by.mutable_uniform()->set_out("by");
  by.mutable_uniform()->set_seed(3);
  by.mutable_uniform()->set_low(-1.0);
  by.mutable_uniform()->set_high(1.0);
  ASSERT_OK(Run(by));
  ASSERT_OK(Fill("in", 2.0));
  constexpr double kAny = std::numeric_limits<double>::infinity();
  // The slice begins at kBegin: of other slices' floats there is nothing here.
  ASSERT_OK(select("part", kBegin + 3, kBegin + 7, 0.0, kAny));
  ASSERT_OK(select("others", 0, kBegin, 0.0, kAny));
  ASSERT_OK(select("large", 0, kBegin + kFloats, 0.5, kAny));
  ASSERT_OK(select("small", 0, kBegin + kFloats, 0.0, 0.5));
  const Vector sizes = Get("by");
  const Vector in = Get("in");
  for (size_t i = 0; i < kFloats; ++i) {
    EXPECT_EQ(Get("part")[i], i >= 3 && i < 7 ? 2.0f : 0.0f) << i;
    EXPECT_EQ(Get("others")[i], 0.0f) << i;
    EXPECT_EQ(Get("large")[i], std::abs(sizes[i]) >= 0.5f ? in[i] : 0.0f) << i;
    EXPECT_EQ(Get("small")[i], std::abs(sizes[i]) >= 0.5f ? 0.0f : in[i]) << i;
  }
  EXPECT_EQ(select("bad", 7, 3, 0.0, 1.0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(select("bad", 0, 9, 2.0, 1.0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(select("bad", 0, 9, std::nan(""), 1.0).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(VectorStoreTest, OperationsBeforeAnotherOneAreDoneInOrderAndOnce) {
  VectorRequest dot;
  const auto before = [&dot] {
    VectorRequest* const first = dot.add_before();
    first->set_op_id(static_cast<uint64_t>(dot.before_size()));
    return first;
  };
  before()->mutable_fill()->set_out("x");
  dot.mutable_before(0)->mutable_fill()->set_value(2.0);
  VectorScale* const scale = before()->mutable_scale();
  scale->set_out("y");
  scale->set_in("x");
  scale->set_factor(3.0);
  dot.mutable_before(1)->add_free("x");
  before()->mutable_publish()->set_in("y");
  dot.set_op_id(4);
  dot.mutable_dot()->set_x("y");
  dot.mutable_dot()->set_y("missing");
  EXPECT_THAT(Run(dot), StatusIs(absl::StatusCode::kNotFound, HasSubstr("missing")));
  EXPECT_EQ(parameters_.values[0], 6.0f);
  // What was done is not done again: y would exist.
  dot.mutable_dot()->set_y("y");
  for (int repetition = 0; repetition < 2; ++repetition) {
    ASSERT_OK_AND_ASSIGN(const VectorReply reply, Run(dot));
    EXPECT_THAT(reply.scalar(), ::testing::ElementsAre(36.0 * (kFloats - 4)));
  }
  EXPECT_EQ(store_.Find("x").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(VectorStoreTest, ARestoredVectorIsAsAnyOther) {
  const auto fill = [](float value) {
    return [value](std::span<float> floats) {
      EXPECT_EQ(floats.size(), kFloats);
      std::ranges::fill(floats, value);
      return absl::OkStatus();
    };
  };
  ASSERT_OK(store_.RestoreVector("g", fill(2.0f)));
  EXPECT_EQ(Get("g"), Vector(kFloats, 2.0f));
  EXPECT_EQ(budget_.used(), VectorCost(kVectorBytes));
  EXPECT_THAT(store_.RestoreVector("g", fill(3.0f)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("\"g\"")));
  EXPECT_THAT(store_.RestoreVector("no name", fill(3.0f)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name")));
  EXPECT_THAT(
      store_.RestoreVector("d", [](std::span<float>) { return absl::DataLossError("rotten"); }),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("rotten")));
  EXPECT_EQ(budget_.used(), VectorCost(kVectorBytes));
  // Operations of the store begin at 1.
  ASSERT_OK(Fill("d", 1.0));
  store_.ClearVectors();
  EXPECT_EQ(store_.Find("g").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(budget_.used(), logged_);
  absl::Status status;
  for (int i = 0; status.ok(); ++i) {
    status = store_.RestoreVector(absl::StrCat("v", i), fill(1.0f));
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("\"v")));
}

TEST_F(VectorStoreTest, RefusesOperationsBeforeAnotherOneThatAnswerOrAreTooMany) {
  VectorRequest request;
  request.set_op_id(2);
  request.mutable_only_free();
  VectorRequest* const first = request.add_before();
  first->set_op_id(1);
  first->mutable_dot()->set_x("x");
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("before another"));
  EXPECT_THAT(Run(request), refused);
  first->mutable_only_free();
  first->add_before()->mutable_only_free();
  EXPECT_THAT(Run(request), refused);
  first->clear_before();
  for (int i = 0; i < VectorStore::kMaxBefore; ++i) {
    request.add_before()->mutable_only_free();
  }
  EXPECT_THAT(Run(request), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("17 others")));
}

}  // namespace
}  // namespace monsoon
