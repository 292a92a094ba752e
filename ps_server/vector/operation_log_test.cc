#include "ps_server/vector/operation_log.h"

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

VectorRequest Request(uint64_t id, double value = 0.0) {
  VectorRequest request;
  request.set_op_id(id);
  request.mutable_fill()->set_value(value);
  return request;
}

VectorReply Reply(double scalar) {
  VectorReply reply;
  reply.add_scalar(scalar);
  return reply;
}

TEST(OperationLogTest, GivesTheStoredReplyAgain) {
  OperationLog log;
  ASSERT_OK_AND_ASSIGN(const VectorReply* fresh, log.Find(Request(1)));
  EXPECT_EQ(fresh, nullptr);
  log.Record(Request(1), Reply(1.5), {});
  log.Record(Request(2), Reply(2.5), {});
  ASSERT_OK_AND_ASSIGN(const VectorReply* first, log.Find(Request(1)));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->scalar(0), 1.5);
  EXPECT_EQ((*log.Find(Request(2)))->scalar(0), 2.5);
  EXPECT_EQ(*log.Find(Request(3)), nullptr);
}

TEST(OperationLogTest, RefusesGapsOldOnesAndOtherContent) {
  OperationLog log;
  EXPECT_EQ(log.Find(Request(0)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(log.Find(Request(2)), StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("operation 2 came where 1")));
  const uint64_t last = OperationLog::kKeptReplies + 3;
  for (uint64_t id = 1; id <= last; ++id) {
    log.Record(Request(id), Reply(static_cast<double>(id)), {});
  }
  EXPECT_THAT(log.Find(Request(3)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("too old")));
  EXPECT_EQ((*log.Find(Request(4)))->scalar(0), 4.0);
  EXPECT_EQ((*log.Find(Request(last)))->scalar(0), static_cast<double>(last));
  EXPECT_THAT(log.Find(Request(last, 7.0)),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("other content")));
}

}  // namespace
}  // namespace monsoon
