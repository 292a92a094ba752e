#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/xxh3.h"
#include "common/safetensors/safetensors_file.h"
#include "common/storage/file_path.h"
#include "common/storage/simulated_storage.h"
#include "common/storage/storage.h"
#include "common/testing/status_matchers.h"
#include "common/testing/unique_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Pair;
using testing::StatusIs;

constexpr char kPath[] = "/f";

template <typename T>
std::span<const std::byte> Bytes(const T& values) {
  return std::as_bytes(std::span(values));
}

// A file with that header and data, as anybody may write it.
void WriteFile(Storage* storage, const std::string& header, const std::string& data) {
  std::string content;
  for (int byte = 0; byte < 8; ++byte) {
    content.push_back(static_cast<char>(uint64_t{header.size()} >> (8 * byte)));
  }
  ASSERT_OK(storage->WriteAll(kPath, content + header + data));
}

absl::Status OpenWith(const std::string& header, const std::string& data = "") {
  SimulatedStorage storage;
  WriteFile(&storage, header, data);
  return SafetensorsReader::Open(&storage, kPath).status();
}

// "w" of 2 x 3 floats, "none" of none, "s" of 3 bytes, "c" of one number.
std::vector<TensorSpec> SampleTensors() {
  return {{.name = "w", .type = TensorType::kF32, .shape = {2, 3}},
          {.name = "none", .type = TensorType::kF32, .shape = {0}},
          {.name = "s", .type = TensorType::kU8, .shape = {3}},
          {.name = "c", .type = TensorType::kU64, .shape = {1}}};
}

const std::vector<float> kW = {1.5f, -2, 3, 0, 5, 6};
const std::string kS = "abc";
const std::vector<uint64_t> kC = {0x0102030405060708};

void WriteSample(Storage* storage, const std::string& path) {
  ASSERT_OK_AND_ASSIGN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(storage, path, SampleTensors(), {{"format", "test"}}));
  ASSERT_OK(writer.Append(2, Bytes(kS)));
  ASSERT_OK(writer.Append(0, Bytes(kW).first(8)));
  ASSERT_OK(writer.Append(3, Bytes(kC)));
  ASSERT_OK(writer.Append(0, Bytes(kW).subspan(8)));
  EXPECT_EQ(writer.Checksum(0), Xxh3::Of(Bytes(kW)));
  EXPECT_EQ(writer.Checksum(1), Xxh3::Of({}));
  EXPECT_EQ(writer.Checksum(2), Xxh3::Of(Bytes(kS)));
  ASSERT_OK_AND_ASSIGN(const uint64_t bytes, writer.Finish());
  ASSERT_OK_AND_ASSIGN(const std::string content, storage->ReadAll(path, 1 << 20));
  EXPECT_EQ(content.size(), bytes);
  EXPECT_EQ(content.substr(0, writer.Head().size()), writer.Head());
}

std::string TestPath() {
  const char* const given = std::getenv("TEST_TMPDIR");
  return InFolder(given != nullptr ? given : "/tmp", testing::UniqueName());
}

TEST(SafetensorsTest, BytesByHand) {
  SimulatedStorage storage;
  ASSERT_OK_AND_ASSIGN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(&storage, kPath,
                                {{.name = "x", .type = TensorType::kF32, .shape = {2}}}, {}));
  const std::vector<float> x = {1, -2};
  ASSERT_OK(writer.Append(0, Bytes(x)));
  ASSERT_OK_AND_ASSIGN(const uint64_t bytes, writer.Finish());
  EXPECT_EQ(bytes, 72u);
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(*storage.ReadAll(kPath, 100), std::string("\x38\0\0\0\0\0\0\0", 8) + header + "  " +
                                              std::string("\0\0\x80\x3f\0\0\0\xc0", 8));
}

TEST(SafetensorsTest, ReadsWhatWasWritten) {
  SimulatedStorage storage;
  WriteSample(&storage, kPath);
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(&storage, kPath));
  EXPECT_EQ(reader.path(), kPath);
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair("format", "test")));
  EXPECT_EQ(reader.head().size() % 64, 0u);
  ASSERT_EQ(reader.tensors().size(), 4u);
  EXPECT_EQ(reader.file_bytes(), reader.head().size() + 24 + 3 + 8);
  const SafetensorsReader::Tensor* const w = reader.Find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->type, "F32");
  EXPECT_THAT(w->shape, ElementsAre(2, 3));
  EXPECT_EQ(w->offset, reader.head().size());
  std::vector<float> values(4);
  ASSERT_OK(reader.Read(*w, 8, std::as_writable_bytes(std::span(values))));
  EXPECT_THAT(values, ElementsAre(3, 0, 5, 6));
  std::vector<uint64_t> c(1);
  ASSERT_OK(reader.Read(*reader.Find("c"), 0, std::as_writable_bytes(std::span(c))));
  EXPECT_EQ(c, kC);
  EXPECT_EQ(reader.Find("none")->bytes, 0u);
  EXPECT_EQ(reader.Find("v"), nullptr);
}

TEST(SafetensorsTest, SizesMayComeLate) {
  for (const uint64_t size : {0u, 5u, 100000u}) {
    SimulatedStorage storage;
    ASSERT_OK_AND_ASSIGN(
        SafetensorsWriter writer,
        SafetensorsWriter::Create(&storage, kPath,
                                  {{.name = "a", .type = TensorType::kU8, .shape = {3}},
                                   {.name = "late", .type = TensorType::kU8, .shape = {0}},
                                   {.name = "last", .type = TensorType::kU64, .shape = {1}}},
                                  {}, /*late=*/2));
    ASSERT_OK(writer.Append(0, Bytes(kS)));
    ASSERT_OK(writer.SetSize(1, size));
    ASSERT_OK(writer.Append(1, Bytes(std::string(size, 'x'))));
    ASSERT_OK(writer.Append(2, Bytes(kC)));
    ASSERT_OK_AND_ASSIGN(const uint64_t bytes, writer.Finish());
    ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(&storage, kPath));
    EXPECT_EQ(reader.head(), writer.Head());
    EXPECT_EQ(reader.head().size() % 64, 0u);
    EXPECT_EQ(bytes, reader.head().size() + 3 + size + 8);
    EXPECT_EQ(reader.Find("late")->bytes, size);
    std::vector<uint64_t> c(1);
    ASSERT_OK(reader.Read(*reader.Find("last"), 0, std::as_writable_bytes(std::span(c))));
    EXPECT_EQ(c, kC);
  }
}

TEST(SafetensorsTest, NamesThatNobodyCouldReadAreRefused) {
  SimulatedStorage storage;
  const auto create = [&](std::vector<TensorSpec> tensors) {
    return SafetensorsWriter::Create(&storage, kPath, std::move(tensors), {}).status();
  };
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kPath));
  EXPECT_THAT(create({{.name = "a", .shape = {1}}, {.name = "a", .shape = {1}}}), refused);
  EXPECT_THAT(create({{.name = "__metadata__", .shape = {1}}}), refused);
  EXPECT_THAT(create({{.name = "\xff", .shape = {1}}}), refused);
}

TEST(SafetensorsTest, NamesAreEscaped) {
  SimulatedStorage storage;
  const std::string name = "a\"\\\n\x01\x7f\xc3\xa4";
  ASSERT_OK_AND_ASSIGN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(&storage, kPath, {{.name = name, .shape = {0}}}, {{name, name}}));
  ASSERT_OK(writer.Finish());
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(&storage, kPath));
  EXPECT_NE(reader.Find(name), nullptr);
  EXPECT_THAT(reader.metadata(), ElementsAre(Pair(name, name)));
}

TEST(SafetensorsTest, WriteErrorsComeThrough) {
  SimulatedStorage storage;
  const absl::Status full = absl::ResourceExhaustedError("No space left on device");
  for (int step = 1; step <= 4; ++step) {
    storage.FailAfter(step, full);
    const absl::Status status = [&]() -> absl::Status {
      auto writer = SafetensorsWriter::Create(
          &storage, kPath, {{.name = "a", .type = TensorType::kU8, .shape = {3}}}, {});
      if (!writer.ok()) {
        return writer.status();
      }
      const absl::Status appended = writer->Append(0, Bytes(kS));
      return appended.ok() ? writer->Finish().status() : appended;
    }();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(kPath)));
    storage.ClearFailure();
  }
}

TEST(SafetensorsTest, AMissingFileIsNotFound) {
  SimulatedStorage storage;
  EXPECT_THAT(SafetensorsReader::Open(&storage, "/no").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no")));
}

TEST(SafetensorsTest, OthersTypesAreListedAndNotRead) {
  SimulatedStorage storage;
  WriteFile(&storage,
            R"( {"h":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}, )"
            R"("q":{"data_offsets":[4,5],"shape":[2],"dtype":"F4"}})",
            "12345");
  // A blank before the bracket is none of the format's.
  EXPECT_FALSE(SafetensorsReader::Open(&storage, kPath).ok());
  WriteFile(&storage,
            R"({"h":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}, )"
            R"("q":{"data_offsets":[4,5],"shape":[2],"dtype":"F4"}} )",
            "12345");
  ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader, SafetensorsReader::Open(&storage, kPath));
  ASSERT_EQ(reader.tensors().size(), 2u);
  std::vector<std::byte> out(4);
  EXPECT_THAT(reader.Read(reader.tensors()[0], 0, out),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("BF16")));
}

struct Broken {
  const char* why;
  const char* header;
  const char* data;
  const char* message;
};

TEST(SafetensorsTest, BrokenHeadersAreRefusedWithAReason) {
  const Broken kBroken[] = {
      {"nothing", "", "", "does not begin"},
      {"a list", "[]", "", "does not begin"},
      {"cut", R"({"a":)", "", "not JSON"},
      {"garbage behind", "{}x", "", "not JSON"},
      {"not UTF-8", "{\"\xff\":1}", "", "not JSON"},
      {"data of nobody", "{}", "x", "0 bytes"},
      {"a number", R"({"a":1})", "", "a number for \"a\""},
      {"a list", R"({"a":[]})", "", "a list"},
      {"null", R"({"a":null})", "", "null"},
      {"true", R"({"a":{"dtype":true}})", "", "true"},
      {"metadata of numbers", R"({"__metadata__":{"k":1}})", "", "a number for \"k\""},
      {"metadata in metadata", R"({"__metadata__":{"k":{}}})", "", "an object"},
      {"metadata twice", R"({"__metadata__":{"k":"a","k":"a"}})", "", "twice"},
      {"an empty tensor", R"({"a":{}})", "", "lacks"},
      {"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", "", "lacks"},
      {"one offset", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", "", "lacks"},
      {"three offsets", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", "", "lacks"},
      {"negative", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", "", "negative"},
      {"a fraction", R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "x", "whole"},
      {"2^64", R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})", "",
       "too large"},
      {"overflow", R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})",
       "", "do not fit"},
      {"nested", R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "x", "a list"},
      {"unknown", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"k":1}})", "x", "unknown"},
      {"shape twice", R"({"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", "x",
       "twice"},
      {"too short", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,1]}})", "x", "do not fit"},
      {"backwards",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
       "x", "expected from"},
      {"a gap", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy", "expected from"},
      {"an end", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xy", "1 bytes"},
      {"beyond", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "x", "at most to 1"},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "xyz", "expected from 2"},
      {"a name twice",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       "xy", "\"a\" twice"},
  };
  for (const Broken& broken : kBroken) {
    EXPECT_THAT(OpenWith(broken.header, broken.data),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(kPath), HasSubstr(broken.message))))
        << broken.why;
  }
  EXPECT_OK(OpenWith("{}  \n"));
  EXPECT_FALSE(OpenWith(std::string("{}\0", 3)).ok());
  std::string dimensions = "1";
  for (int i = 0; i < 64; ++i) {
    dimensions += ",1";
  }
  EXPECT_THAT(OpenWith(absl::StrCat(R"({"a":{"dtype":"U8","shape":[)", dimensions,
                                    R"(],"data_offsets":[0,1]}})"),
                       "x"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too long")));
}

TEST(SafetensorsTest, AHeaderBeyondTheFileIsRefused) {
  SimulatedStorage storage;
  for (const std::string& length :
       {std::string("\xff\xff\xff\xff\xff\xff\xff\xff"), std::string("\3\0\0\0\0\0\0\0", 8),
        std::string("\xf9\xff\xff\xff\xff\xff\xff\xff")}) {
    ASSERT_OK(storage.WriteAll(kPath, length + "{}"));
    EXPECT_THAT(SafetensorsReader::Open(&storage, kPath).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a header of")));
  }
}

TEST(SafetensorsTest, EveryTruncationIsRefused) {
  SimulatedStorage whole;
  WriteSample(&whole, kPath);
  const std::string content = *whole.ReadAll(kPath, 1 << 20);
  for (size_t bytes = 0; bytes < content.size(); ++bytes) {
    SimulatedStorage storage;
    ASSERT_OK(storage.WriteAll(kPath, content.substr(0, bytes)));
    EXPECT_THAT(SafetensorsReader::Open(&storage, kPath).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(kPath)))
        << bytes;
  }
}

TEST(SafetensorsTest, EveryBitFlipOfTheHeadIsRefusedOrHarmless) {
  SimulatedStorage storage;
  WriteSample(&storage, kPath);
  ASSERT_OK_AND_ASSIGN(const std::string content, storage.ReadAll(kPath, 1 << 20));
  const size_t head = SafetensorsReader::Open(&storage, kPath)->head().size();
  int refused = 0;
  for (size_t offset = 0; offset < head; ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      storage.CorruptByte(kPath, offset, bit);
      const auto reader = SafetensorsReader::Open(&storage, kPath);
      refused += reader.ok() ? 0 : 1;
      if (reader.ok()) {
        // What it says is still within the file.
        uint64_t end = reader->head().size();
        for (const SafetensorsReader::Tensor& tensor : reader->tensors()) {
          EXPECT_EQ(tensor.offset, end);
          end += tensor.bytes;
          std::vector<std::byte> out(tensor.bytes);
          const absl::Status read = reader->Read(tensor, 0, out);
          EXPECT_TRUE(read.ok() || absl::IsInvalidArgument(read)) << read;
        }
        EXPECT_EQ(end, content.size());
      }
      storage.CorruptByte(kPath, offset, bit);
    }
  }
  EXPECT_EQ(*storage.ReadAll(kPath, 1 << 20), content);
  // Names, and the text of metadata, may become others; little else.
  EXPECT_GT(refused, static_cast<int>(head * 8 * 3 / 4));
}

TEST(SafetensorsTest, NumpyReadsWhatWeWrite) {
  const std::string path = TestPath();
  WriteSample(PosixStorage(), path);
  ASSERT_OK(PosixStorage()->WriteAll(path + ".py", R"py(
import json, sys, numpy
f = open(sys.argv[1], 'rb').read()
n = int.from_bytes(f[:8], 'little')
header = json.loads(f[8:8 + n])
assert header.pop('__metadata__') == {'format': 'test'}, header
assert (8 + n) % 64 == 0
types = {'F32': '<f4', 'U8': 'u1', 'U64': '<u8'}
t = {name: numpy.frombuffer(f[8 + n + e['data_offsets'][0]:8 + n + e['data_offsets'][1]],
                            types[e['dtype']]).reshape(e['shape']) for name, e in header.items()}
assert list(t) == ['w', 'none', 's', 'c'], t
assert (t['w'] == [[1.5, -2, 3], [0, 5, 6]]).all(), t
assert t['none'].shape == (0,) and bytes(t['s']) == b'abc' and t['c'][0] == 0x0102030405060708
)py"));
  EXPECT_EQ(std::system(absl::StrCat("/usr/bin/python3 ", path, ".py ", path).c_str()), 0);
}

}  // namespace
}  // namespace monsoon
