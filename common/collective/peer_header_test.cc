#include "common/collective/peer_header.h"

#include <string>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::_;
using ::testing::HasSubstr;

PeerHeader Example() {
  PeerHeader header;
  header.generation = 3;
  header.sender = 2;
  header.receiver = 1;
  header.collective = 7;
  header.what = {Operation::kBroadcast, Algorithm::kTree, SumOrder::kByRank, 2, 1000, 256};
  header.number = 9;
  header.index = 5;
  header.consumed = 4;
  return header;
}

TEST(PeerHeaderTest, LiesInBytesAsWritten) {
  const std::string bytes = EncodePeerHeader(Example());
  const std::string expected(
      "MCL1\1\1\2\1"
      "\3\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0"
      "\x09\0\0\0\0\0\0\0\xe8\3\0\0\0\0\0\0"
      "\4\0\0\0\0\0\0\0\2\0\0\0"
      "\1\0\0\0\5\0\0\0"
      "\0\1\0\0\2\0\0\0",
      68);
  EXPECT_EQ(bytes, expected);
}

TEST(PeerHeaderTest, IsReadAsItWasWritten) {
  const PeerHeader written = Example();
  ASSERT_OK_AND_ASSIGN(const PeerHeader read, DecodePeerHeader(EncodePeerHeader(written)));
  EXPECT_EQ(read.what, written.what);
  EXPECT_EQ(read.generation, 3u);
  EXPECT_EQ(read.collective, 7u);
  EXPECT_EQ(read.number, 9u);
  EXPECT_EQ(read.sender, 2u);
  EXPECT_EQ(read.receiver, 1u);
  EXPECT_EQ(read.index, 5u);
  EXPECT_EQ(read.consumed, 4u);
  EXPECT_EQ(EncodePeerHeader(read), EncodePeerHeader(written));
}

TEST(PeerHeaderTest, ATextIsOfThoseThatGaveUpAndHasALongestLength) {
  PeerHeader header = Example();
  header.text = "why";
  EXPECT_THAT(DecodePeerHeader(EncodePeerHeader(header)).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too long")));
  header.type = PeerHeader::Type::kGaveUp;
  header.text = std::string(5'000, 'x') + "\xff";
  ASSERT_OK_AND_ASSIGN(const PeerHeader read, DecodePeerHeader(EncodePeerHeader(header)));
  EXPECT_EQ(read.text, std::string(PeerHeader::kMostText, 'x'));
}

TEST(PeerHeaderTest, GarbageIsRefused) {
  const std::string good = EncodePeerHeader(Example());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(DecodePeerHeader(good.substr(0, size)).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, _));
  }
  const auto with = [&](size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return DecodePeerHeader(bytes).status();
  };
  EXPECT_THAT(with(0, 'X'), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no header")));
  EXPECT_THAT(with(4, 0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("type 0")));
  EXPECT_THAT(with(4, 5), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("type 5")));
  EXPECT_THAT(with(5, 4), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("operation 4")));
  EXPECT_THAT(with(6, 6), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("algorithm 6")));
  EXPECT_THAT(with(7, 2), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("order 2")));
  EXPECT_THAT(with(61, 0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parts of 0")));
  EXPECT_THAT(with(63, 1), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("parts of")));
}

TEST(PeerAnswerTest, IsReadAsItWasWritten) {
  ASSERT_OK_AND_ASSIGN(const PeerAnswer read, DecodePeerAnswer(EncodePeerAnswer({5, 6, 7})));
  EXPECT_EQ(read.consumed, 5u);
  EXPECT_EQ(read.collective, 6u);
  EXPECT_EQ(read.waits_for, 7u);
  EXPECT_THAT(DecodePeerAnswer("short").status(), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

}  // namespace
}  // namespace monsoon
