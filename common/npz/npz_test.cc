#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/npz/npz_reader.h"
#include "common/npz/npz_writer.h"
#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string TestPath(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/",
                      ::testing::UnitTest::GetInstance()->current_test_info()->name(), "_", name);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<float> Ramp(size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(i) * 0.25f - 3.0f;
  }
  return values;
}

// conv1/weight (2, 3, 1, 2), a scalar-free bias (5,) and an empty one (0,).
void WriteSample(const std::string& path, bool zip64 = false) {
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path, {.force_zip64 = zip64}));
  const std::vector<uint32_t> four = {2, 3, 1, 2};
  const std::vector<uint32_t> one = {5};
  const std::vector<uint32_t> none = {0};
  ASSERT_OK(writer.Add("conv1/weight", four, Ramp(12)));
  ASSERT_OK(writer.Add("conv1/bias", one, Ramp(5)));
  ASSERT_OK(writer.Add("empty", none, {}));
  ASSERT_OK(writer.Finish());
}

int RunPython(const std::string& script, const std::string& argument) {
  const std::string path = TestPath("script.py");
  WriteFile(path, script);
  return std::system(absl::StrCat("/usr/bin/python3 ", path, " ", argument).c_str());
}

constexpr char kNumpyCheck[] = R"py(
import sys, zipfile, numpy
assert zipfile.ZipFile(sys.argv[1]).testzip() is None
f = numpy.load(sys.argv[1])
assert sorted(f.files) == ['conv1/bias', 'conv1/weight', 'empty'], f.files
w = f['conv1/weight']
assert w.dtype == numpy.dtype('<f4') and w.flags['C_CONTIGUOUS'], (w.dtype, w.flags)
ramp = numpy.arange(12, dtype='<f4') * numpy.float32(0.25) - 3
assert w.shape == (2, 3, 1, 2) and (w.ravel() == ramp).all(), w
b = f['conv1/bias']
assert b.shape == (5,) and (b == ramp[:5]).all(), b
assert f['empty'].shape == (0,)
)py";

TEST(NpzTest, PiecesMakeTheSameBytes) {
  for (const bool zip64 : {false, true}) {
    const std::string whole = TestPath("whole.npz"), pieces = TestPath("pieces.npz");
    WriteSample(whole, zip64);
    ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(pieces, {.force_zip64 = zip64}));
    const std::vector<uint64_t> four = {2, 3, 1, 2};
    const std::vector<float> ramp = Ramp(12);
    ASSERT_OK(writer.Begin("conv1/weight", four));
    for (const size_t size : {7, 0, 5}) {
      ASSERT_OK(writer.Append(std::span(ramp).subspan(size == 5 ? 7 : 0, size)));
    }
    ASSERT_OK(writer.End());
    ASSERT_OK(writer.Add("conv1/bias", std::vector<uint32_t>{5}, Ramp(5)));
    ASSERT_OK(writer.Begin("empty", std::vector<uint64_t>{0}));
    ASSERT_OK(writer.End());
    ASSERT_OK(writer.Finish());
    EXPECT_EQ(ReadFile(pieces), ReadFile(whole));
  }
}

TEST(NpzTest, NumpyReadsWhatWeWrite) {
  const std::string path = TestPath("a.npz");
  WriteSample(path);
  EXPECT_EQ(RunPython(kNumpyCheck, path), 0);
}

TEST(NpzTest, HasNoMemberThatLeavesItsFolder) {
  const std::string path = TestPath("leaves.npz");
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path, {}));
  for (const char* const name : {"../w", "/w", "a/../../w", ""}) {
    EXPECT_THAT(writer.Add(name, std::vector<uint32_t>{5}, Ramp(5)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("would leave the folder")));
  }
}

TEST(NpzTest, NumpyReadsZip64) {
  const std::string path = TestPath("a.npz");
  WriteSample(path, /*zip64=*/true);
  EXPECT_EQ(RunPython(kNumpyCheck, path), 0);
}

TEST(NpzTest, ReadsWhatNumpyWrites) {
  const std::string path = TestPath("a.npz");
  ASSERT_EQ(RunPython("import sys, numpy\n"
                      "numpy.savez(sys.argv[1], **{'dense1/weight':\n"
                      "    numpy.arange(6, dtype='<f4').reshape(3, 2), 'x': numpy.float32([7])})\n",
                      path),
            0);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  EXPECT_THAT(reader.Names(), ElementsAre("dense1/weight", "x"));
  ASSERT_OK_AND_ASSIGN(const NpzReader::Array array, reader.Read("dense1/weight"));
  EXPECT_THAT(array.shape, ElementsAre(3, 2));
  EXPECT_THAT(array.values, ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(NpzTest, RoundTrip) {
  for (const bool zip64 : {false, true}) {
    const std::string path = TestPath("a.npz");
    WriteSample(path, zip64);
    ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
    EXPECT_THAT(reader.Names(), ElementsAre("conv1/bias", "conv1/weight", "empty"));
    ASSERT_OK_AND_ASSIGN(const NpzReader::Array weight, reader.Read("conv1/weight"));
    EXPECT_THAT(weight.shape, ElementsAre(2, 3, 1, 2));
    EXPECT_EQ(weight.values, Ramp(12));
    ASSERT_OK_AND_ASSIGN(const NpzReader::Array empty, reader.Read("empty"));
    EXPECT_THAT(empty.shape, ElementsAre(0));
    EXPECT_TRUE(empty.values.empty());
    EXPECT_THAT(reader.Read("conv2/bias").status(),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("no member conv2/bias.npy")));
  }
}

TEST(NpzTest, TheBytesAreFixed) {
  const std::string path = TestPath("a.npz");
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path));
  const std::vector<uint32_t> shape = {2};
  const std::vector<float> values = {1.0f, -2.0f};
  ASSERT_OK(writer.Add("b", shape, values));
  ASSERT_OK(writer.Finish());
  const std::string bytes = ReadFile(path);
  const size_t data = 30 + 5;  // local header, "b.npy"
  ASSERT_EQ(bytes.size(), data + 128 + 8 + 46 + 5 + 22);
  EXPECT_EQ(bytes.substr(0, 4), "PK\x03\x04");
  EXPECT_EQ(bytes.substr(30, 5), "b.npy");
  EXPECT_EQ(bytes.substr(data, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(bytes.substr(data + 10, 60),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }   ");
  EXPECT_EQ(bytes[data + 127], '\n');
  EXPECT_EQ(bytes.substr(data + 128, 8), std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8));
}

TEST(NpzTest, NothingIsLeftWithoutFinish) {
  const std::string folder = TestPath("folder");
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  {
    ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(folder + "/a.npz"));
    const std::vector<uint32_t> shape = {5};
    ASSERT_OK(writer.Add("b", shape, Ramp(5)));
  }
  // rmdir succeeds only on an empty folder.
  EXPECT_EQ(rmdir(folder.c_str()), 0);
}

TEST(NpzTest, ErrorsNameTheFile) {
  EXPECT_THAT(NpzWriter::Create("/no/such/folder/a.npz").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/folder/a.npz")));
  EXPECT_THAT(NpzReader::Open("/no/such/a.npz").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/a.npz")));
  const std::string pipe = TestPath("pipe.npz");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(NpzReader::Open(pipe).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  EXPECT_THAT(NpzReader::Open("/tmp").status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
}

TEST(NpzTest, RefusesOtherTypes) {
  const std::string path = TestPath("a.npz");
  ASSERT_EQ(RunPython("import sys, numpy\n"
                      "numpy.savez(sys.argv[1], double=numpy.zeros(3), int=numpy.int32([1]),\n"
                      "    fortran=numpy.asfortranarray(numpy.zeros((2, 2), '<f4')))\n",
                      path),
            0);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  for (const std::string name : {"double", "int", "fortran"}) {
    EXPECT_THAT(reader.Read(name).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("member " + name)));
  }
}

TEST(NpzTest, ReadsDeflatedMembers) {
  const std::string path = TestPath("a.npz");
  ASSERT_EQ(RunPython("import sys, numpy\n"
                      "numpy.savez_compressed(sys.argv[1], a=numpy.arange(60000, dtype='<f4'),\n"
                      "    ids=numpy.arange(100000, dtype='<i8').reshape(2, -1))\n",
                      path),
            0);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  ASSERT_OK_AND_ASSIGN(const NpzReader::Array a, reader.Read("a"));
  ASSERT_EQ(a.values.size(), 60000u);
  for (size_t i = 0; i < a.values.size(); ++i) {
    ASSERT_EQ(a.values[i], static_cast<float>(i));
  }
  ASSERT_OK_AND_ASSIGN(const NpyHeader header, reader.Header("ids"));
  EXPECT_EQ(header.type, NpyType::kInt64);
  EXPECT_THAT(header.shape, ElementsAre(2, 50000));
  int64_t next = 0;
  ASSERT_OK(reader.Stream("ids", [&](std::span<const uint8_t> bytes) {
    EXPECT_EQ(bytes.size() % 8, 0u);
    for (size_t i = 0; i < bytes.size(); i += 8, ++next) {
      int64_t value = 0;
      std::memcpy(&value, bytes.data() + i, 8);
      EXPECT_EQ(value, next);
    }
    return absl::OkStatus();
  }));
  EXPECT_EQ(next, 100000);
  EXPECT_THAT(reader.Stream("ids", [](const auto&) { return absl::AbortedError("enough"); }),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

// Sizes at which zlib has taken the last input of a member while it still holds output of it.
TEST(NpzTest, ReadsDeflatedMembersThatEndWithinZlib) {
  const std::string path = TestPath("a.npz");
  ASSERT_EQ(RunPython("import sys, numpy\n"
                      "numpy.savez_compressed(sys.argv[1], **{f'z{n}': numpy.zeros(n, '|u1')\n"
                      "    for n in range(65390, 65440)})\n",
                      path),
            0);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  for (size_t n = 65390; n < 65440; ++n) {
    size_t seen = 0;
    const std::string name = absl::StrCat("z", n);
    EXPECT_OK(reader.Header(name).status());
    EXPECT_OK(reader.Stream(name, [&](std::span<const uint8_t> bytes) {
      seen += bytes.size();
      return absl::OkStatus();
    })) << name;
    EXPECT_EQ(seen, n);
  }
}

TEST(NpzTest, DamageInADeflatedMemberIsFound) {
  const std::string path = TestPath("a.npz");
  ASSERT_EQ(RunPython("import sys, numpy\n"
                      "numpy.savez_compressed(sys.argv[1], a=numpy.arange(5000, dtype='<f4'))\n",
                      path),
            0);
  const std::string good = ReadFile(path);
  int refused = 0;
  for (size_t at = 40; at < good.size(); at += good.size() / 50) {
    std::string bytes = good;
    bytes[at] ^= 0x10;
    WriteFile(path, bytes);
    const absl::StatusOr<NpzReader> reader = NpzReader::Open(path);
    if (!reader.ok()) {
      ++refused;
    } else if (const auto array = reader->Read("a"); !array.ok()) {
      ++refused;
    } else {
      // Of the records, something that nobody reads.
      EXPECT_EQ(array->values[4999], 4999.0f) << at;
    }
  }
  EXPECT_GE(refused, 45);
}

TEST(NpzTest, AFlippedDataBitIsFound) {
  const std::string path = TestPath("a.npz");
  WriteSample(path);
  std::string bytes = ReadFile(path);
  bytes[30 + 16 + 128 + 5] ^= 1;  // within the data of conv1/weight.npy
  WriteFile(path, bytes);
  ASSERT_OK_AND_ASSIGN(const NpzReader reader, NpzReader::Open(path));
  EXPECT_THAT(reader.Read("conv1/weight").status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("conv1/weight.npy is damaged")));
  EXPECT_OK(reader.Read("conv1/bias"));
}

void OpenAndReadAll(const std::string& path) {
  const absl::StatusOr<NpzReader> reader = NpzReader::Open(path);
  if (reader.ok()) {
    for (const std::string& name : reader->Names()) {
      reader->Read(name).IgnoreError();
    }
  }
}

// Neither a cut nor a changed byte may crash, and no cut goes unnoticed.
TEST(NpzTest, SurvivesDamage) {
  for (const bool zip64 : {false, true}) {
    const std::string path = TestPath("a.npz");
    WriteSample(path, zip64);
    const std::string bytes = ReadFile(path);
    for (size_t length = 0; length < bytes.size(); length += 3) {
      WriteFile(path, bytes.substr(0, length));
      EXPECT_FALSE(NpzReader::Open(path).ok()) << length;
    }
    const PhiloxStream random(1, StreamKind::kTest);
    for (uint64_t i = 0; i < 3000; ++i) {
      std::string damaged = bytes;
      const uint32_t changes = 1 + random.Below(8 * i, 3);
      for (uint32_t c = 0; c < changes; ++c) {
        damaged[random.Below(8 * i + 1 + 2 * c, bytes.size())] =
            static_cast<char>(random.Below(8 * i + 2 + 2 * c, 256));
      }
      WriteFile(path, damaged);
      OpenAndReadAll(path);
    }
  }
}

}  // namespace
}  // namespace monsoon
