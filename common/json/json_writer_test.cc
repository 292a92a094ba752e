#include "common/json/json_writer.h"

#include <limits>

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

std::string StringJson(absl::string_view text) { return JsonWriter().Value(text).text(); }
std::string NumberJson(double value) { return JsonWriter().Value(value).text(); }

TEST(JsonWriterTest, ObjectsAndArrays) {
  JsonWriter json;
  json.BeginObject();
  json.Member("job", "lenet-1").Member("ok", true).Member("n", uint64_t{18446744073709551615u});
  json.Key("shape").BeginArray().Value(20).Value(-1).EndArray();
  json.Key("pairs").BeginArray();
  json.BeginArray().Value(0).Value(5).EndArray();
  json.BeginArray().Value(1).Value(2).EndArray();
  json.EndArray();
  json.Key("empty").BeginObject().EndObject();
  json.Member("none", std::optional<double>()).Member("some", std::optional<uint64_t>(3));
  json.EndObject();
  EXPECT_EQ(json.text(), R"({"job":"lenet-1","ok":true,"n":18446744073709551615,"shape":[20,-1],)"
                         R"("pairs":[[0,5],[1,2]],"empty":{},"none":null,"some":3})");
}

TEST(JsonWriterTest, Strings) {
  EXPECT_EQ(StringJson("a\"b\\c\n\t\r\x01\x7f"), R"("a\"b\\c\n\t\r\u0001\u007f")");
  EXPECT_EQ(StringJson("fl\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8c\xa7"),
            "\"fl\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x8c\xa7\"");
  // A lone byte, a cut sequence, an overlong slash, a surrogate.
  EXPECT_EQ(StringJson("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(StringJson("a\xe2\x82"), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(StringJson("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");
  EXPECT_EQ(StringJson("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(JsonWriterTest, Numbers) {
  EXPECT_EQ(NumberJson(0.1), "0.1");
  EXPECT_EQ(NumberJson(12.0), "12");
  EXPECT_EQ(NumberJson(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(NumberJson(std::numeric_limits<double>::quiet_NaN()), "null");
  EXPECT_EQ(NumberJson(-std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonWriterTest, AnotherParserReadsEveryByte) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) {
    bytes.push_back(static_cast<char>(c));
  }
  JsonWriter json;
  json.BeginObject().Member(bytes, bytes).EndObject();
  google::protobuf::Struct parsed;
  const auto status = google::protobuf::util::JsonStringToMessage(json.text(), &parsed);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(parsed.fields_size(), 1);
  EXPECT_EQ(parsed.fields().begin()->first.substr(0, 128), bytes.substr(0, 128));
}

}  // namespace
}  // namespace monsoon
