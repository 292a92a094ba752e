#include "common/base/protobuf_log.h"

#include <algorithm>
#include <string>

#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(ProtobufLogTest, BrokenMessagesWriteOneLine) {
  LogProtobufErrors();
  LogProtobufErrors();
  ::testing::internal::CaptureStderr();
  google::protobuf::StringValue value;
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    refused += value.ParseFromString("\x0a\x02\xff\xfe") ? 0 : 1;  // not UTF-8
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(refused, 1000);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text.substr(0, 2000);
  EXPECT_NE(text.find("W] protobuf: "), std::string::npos) << text.substr(0, 2000);
}

}  // namespace
}  // namespace monsoon
