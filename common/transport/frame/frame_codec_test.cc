#include "common/transport/frame/frame_codec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

std::vector<ByteChunk> Cut(const std::string& bytes, size_t piece) {
  std::vector<ByteChunk> chunks = {ByteChunk()};  // empty ones are allowed
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    chunks.push_back(
        std::as_bytes(std::span(bytes)).subspan(begin, std::min(piece, bytes.size() - begin)));
  }
  return chunks;
}

DataHeader ExampleHeader() {
  DataHeader header;
  header.set_request_id(300);
  header.mutable_fetch()->set_stripe_count(7);
  return header;
}

TEST(FrameCodecTest, HasTheDocumentedBytes) {
  const std::string head = EncodeFrameHead(ExampleHeader());
  // MSN1, length 7, request_id: 300, fetch { stripe_count: 7 }.
  EXPECT_EQ(head, std::string("MSN1\x07\0\0\0\x08\xac\x02\x22\x02\x20\x07", 15));
}

TEST(FrameCodecTest, ReadsAFrameCutAnywhere) {
  const std::string frame = EncodeFrameHead(ExampleHeader()) + "payload";
  for (size_t piece = 1; piece <= frame.size(); ++piece) {
    const std::vector<ByteChunk> chunks = Cut(frame, piece);
    ChunkCursor cursor(chunks);
    ASSERT_OK_AND_ASSIGN(const DataHeader header, DecodeFrameHead(&cursor));
    EXPECT_EQ(header.request_id(), 300u);
    EXPECT_EQ(header.fetch().stripe_count(), 7u);
    ASSERT_EQ(cursor.remaining(), 7u);
    char text[5] = {};
    cursor.Skip(3);
    cursor.Copy(4, text);
    EXPECT_STREQ(text, "load");
    EXPECT_EQ(cursor.remaining(), 0u);
  }
}

TEST(FrameCodecTest, RefusesMalformedFrames) {
  const std::string good = EncodeFrameHead(ExampleHeader());
  std::string magic = good, longer = good, huge = good, garbage = good;
  magic[3] = '2';
  longer[4] = 8;
  huge[7] = 1;
  garbage[8] = '\xff';
  const struct {
    std::string bytes;
    const char* message;
  } kCases[] = {{"", "shorter"},
                {"MSN1\1\0\0", "shorter"},
                {magic, "MSN1"},
                {longer, "8 bytes"},
                {huge, "limit"},
                {garbage, "parsed"},
                {good + std::string(kMaxFramePayloadBytes + 1, 'x'), "payload"}};
  for (const auto& [bytes, message] : kCases) {
    const std::vector<ByteChunk> chunks = Cut(bytes, 1 << 16);
    ChunkCursor cursor(chunks);
    EXPECT_THAT(DecodeFrameHead(&cursor),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(ChunkCursorTest, PeeksAtWhatLiesInOneAlignedPiece) {
  alignas(64) const std::byte bytes[100] = {};
  const ByteChunk chunks[] = {{bytes, 60}, {bytes + 60, 0}, {bytes + 64, 36}};
  ChunkCursor cursor(chunks);
  EXPECT_EQ(cursor.Peek(60, 64), bytes);
  EXPECT_EQ(cursor.Peek(61, 64), nullptr);
  cursor.Skip(4);
  EXPECT_EQ(cursor.Peek(8, 64), nullptr);
  EXPECT_EQ(cursor.Peek(8, 4), bytes + 4);
  EXPECT_EQ(cursor.remaining(), 92u);
  cursor.Skip(92);
  EXPECT_EQ(cursor.Peek(0, 4), nullptr);
}

}  // namespace
}  // namespace monsoon
