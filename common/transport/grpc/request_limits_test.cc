#include "common/transport/grpc/request_limits.h"

#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/data_report.pb.h"
#include "proto/dataset.pb.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(RequestLimitsTest, NamesTheFieldAndItsLimit) {
  SubmitRequest request;
  request.set_client_id(std::string(128, 'x'));
  EXPECT_OK(CheckRequestLimits(request));
  request.set_client_id(std::string(3900000, 'x'));
  EXPECT_THAT(CheckRequestLimits(request),
              StatusIs(kInvalid, HasSubstr("client_id has 3900000 bytes; at most 128 are taken")));
}

TEST(RequestLimitsTest, LooksIntoSubmessagesAndLists) {
  SubmitRequest request;
  request.mutable_job()->mutable_train()->add_class_name("cat");
  EXPECT_OK(CheckRequestLimits(request));
  request.mutable_job()->mutable_train()->add_class_name(std::string(kMostTextBytes + 1, 'x'));
  EXPECT_THAT(CheckRequestLimits(request), StatusIs(kInvalid, HasSubstr("class_name has")));
}

TEST(RequestLimitsTest, AJobOfManyTextsHasALimitToo) {
  SubmitRequest request;
  for (size_t i = 0; i < kMostJobMessageBytes / 1000; ++i) {
    request.mutable_job()->mutable_train()->add_class_name(std::string(1000, 'x'));
  }
  EXPECT_THAT(CheckRequestLimits(request), StatusIs(kInvalid, HasSubstr("the job has")));
}

TEST(RequestLimitsTest, ListsThatAreKeptAreCounted) {
  DataReport report;
  for (int i = 0; i < 256; ++i) {
    report.add_error()->set_field("train");
  }
  EXPECT_OK(CheckRequestLimits(report));
  report.add_error();
  EXPECT_THAT(CheckRequestLimits(report),
              StatusIs(kInvalid, HasSubstr("error has 257 values; at most 256 are taken")));
}

}  // namespace
}  // namespace monsoon
