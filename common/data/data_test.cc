#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "common/data/access/data_access.h"
#include "common/data/dataset_info.h"
#include "common/data/file_prefix.h"
#include "common/data/gzip_file.h"
#include "common/data/idx_header.h"
#include "common/data/npy_file.h"
#include "common/data/scan_values.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::string WriteGzip(const std::string& name, const std::vector<std::string>& members) {
    const std::string path = folder_ / name;
    for (const std::string& bytes : members) {
      gzFile file = gzopen(path.c_str(), "ab");
      gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
      gzclose(file);
    }
    return path;
  }

  std::filesystem::path folder_;
};

std::string Idx(uint8_t type, const std::vector<uint32_t>& shape, size_t elements) {
  std::string bytes = {0, 0, static_cast<char>(type), static_cast<char>(shape.size())};
  for (const uint32_t length : shape) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<char>(length >> shift & 0xff));
    }
  }
  for (size_t i = 0; i < elements; ++i) {
    bytes.push_back(static_cast<char>(i % 10));
  }
  return bytes;
}

// As numpy.save writes it.
std::string Npy(const std::string& dictionary, size_t data_bytes, uint8_t version = 1) {
  std::string header = dictionary;
  const size_t fixed = version == 1 ? 10 : 12;
  while ((fixed + header.size() + 1) % 64 != 0) {
    header.push_back(' ');
  }
  header.push_back('\n');
  std::string bytes = "\x93NUMPY";
  bytes.push_back(static_cast<char>(version));
  bytes.push_back(0);
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    bytes.push_back(static_cast<char>(header.size() >> (8 * i) & 0xff));
  }
  return bytes + header + std::string(data_bytes, '\1');
}

std::string Dictionary(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

TEST_F(DataTest, ReadsIdxPlainAndGzip) {
  const std::string bytes = Idx(8, {3, 2, 5}, 30);
  for (const std::string& path : {Write("a", bytes), WriteGzip("b.gz", {bytes}),
                                  WriteGzip("c.gz", {bytes.substr(0, 20), bytes.substr(20)})}) {
    ASSERT_OK_AND_ASSIGN(const IdxHeader header, ReadIdxHeader(path, DataAccess::Own()));
    EXPECT_THAT(header.shape, ElementsAre(3, 2, 5));
    EXPECT_EQ(header.data_offset, 16u);
    EXPECT_EQ(header.data_bytes, 30u);
    EXPECT_EQ(header.compressed, path.back() == 'z');
  }
}

TEST_F(DataTest, RefusesBrokenIdxByWhatItFound) {
  const auto refusal = [this](const std::string& bytes) {
    return std::string(ReadIdxHeader(Write("f", bytes), DataAccess::Own()).status().message());
  };
  EXPECT_THAT(refusal(""), HasSubstr("found an empty file"));
  EXPECT_THAT(refusal("PK\3\4zip"), HasSubstr("found magic 504b0304"));
  EXPECT_THAT(refusal(Idx(0x0d, {2}, 8)), HasSubstr("32-bit floats"));
  EXPECT_THAT(refusal(Idx(8, {}, 8)), HasSubstr("0 dimensions"));
  EXPECT_THAT(refusal(Idx(8, {1, 1, 1, 1, 1}, 1)), HasSubstr("5 dimensions"));
  EXPECT_THAT(refusal(Idx(8, {3, 4}, 0).substr(0, 9)), HasSubstr("cut short after 9 bytes"));
  EXPECT_THAT(refusal(Idx(8, {3, 0}, 0)), HasSubstr("dimension 1 of the IDX header is 0"));
  EXPECT_THAT(refusal(Idx(8, {0xffffffff, 0xffffffff, 0xffffffff}, 0)), HasSubstr("overflow"));
  EXPECT_THAT(refusal(Idx(8, {3, 4}, 11)),
              HasSubstr("the header promises 24 bytes, the file has 23"));
  EXPECT_THAT(refusal(Idx(8, {3, 4}, 13)), HasSubstr("the file has 25"));
}

TEST_F(DataTest, NoticesACutGzipFile) {
  const std::string whole = WriteGzip("w.gz", {Idx(8, {5000}, 5000)});
  std::ifstream stream(whole, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(ReadIdxHeader(Write("cut.gz", bytes.substr(0, bytes.size() - 10)), DataAccess::Own()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut short or damaged")));
  const std::string few = WriteGzip("few.gz", {Idx(8, {5000}, 4000)});
  EXPECT_THAT(ReadIdxHeader(few, DataAccess::Own()),
              StatusIs(kInvalid, HasSubstr("the file has 4008")));
}

// As nobody's data are: some KiB that would keep a worker busy with GiB.
TEST_F(DataTest, GivesUpGzipThatExpandsBeyondAllProportion) {
  const std::string zeros(kFreeExpansion, '\0');
  const std::string small = WriteGzip("small.gz", {zeros.substr(0, kFreeExpansion / 8)});
  ASSERT_OK_AND_ASSIGN(const uint64_t counted, CountBytes(small, DataRoots::Anywhere()));
  EXPECT_EQ(counted, kFreeExpansion / 8);
  const std::string large = WriteGzip("large.gz", {zeros, zeros.substr(0, 1 << 20)});
  uint64_t seen = 0;
  EXPECT_THAT(ReadTextPieces(large, DataRoots::Anywhere(),
                             [&](absl::string_view piece) {
                               seen += piece.size();
                               return absl::OkStatus();
                             }),
              StatusIs(kInvalid, HasSubstr("times as many, which is hardly data")));
  EXPECT_LE(seen, kFreeExpansion);
  // Data are none of it, however many they are.
  EXPECT_OK(CheckExpansion("x", 10 * kFreeExpansion, 1000 * kFreeExpansion));
  EXPECT_FALSE(CheckExpansion("x", kFreeExpansion / kMostExpansion, 2 * kFreeExpansion).ok());
}

TEST_F(DataTest, RefusesWhatIsNoFile) {
  EXPECT_THAT(ReadIdxHeader(folder_ / "absent", DataAccess::Own()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent: No such file")));
  EXPECT_THAT(ReadIdxHeader(folder_, DataAccess::Own()),
              StatusIs(kInvalid, HasSubstr("it is a directory")));
  EXPECT_THAT(ReadNpyHeader("/dev/zero", DataAccess::Own()),
              StatusIs(kInvalid, HasSubstr("not a file")));
}

TEST_F(DataTest, ReadsNpy) {
  ASSERT_OK_AND_ASSIGN(
      NpyHeader header,
      ReadNpyHeader(Write("a", Npy(Dictionary("<f4", "(3, 2)"), 24)), DataAccess::Own()));
  EXPECT_EQ(header.type, NpyType::kFloat32);
  EXPECT_THAT(header.shape, ElementsAre(3, 2));
  EXPECT_EQ(header.data_offset % 64, 0u);
  EXPECT_EQ(header.data_bytes, 24u);
  ASSERT_OK_AND_ASSIGN(
      header, ReadNpyHeader(Write("b", Npy(Dictionary("<i8", "(3,)"), 24, 2)), DataAccess::Own()));
  EXPECT_EQ(header.type, NpyType::kInt64);
  EXPECT_THAT(header.shape, ElementsAre(3));
  ASSERT_OK_AND_ASSIGN(
      header, ReadNpyHeader(Write("c", Npy(Dictionary("|u1", "()"), 1, 3)), DataAccess::Own()));
  EXPECT_TRUE(header.shape.empty());
}

TEST_F(DataTest, RefusesBrokenNpy) {
  const auto refusal = [this](const std::string& bytes) {
    return std::string(ReadNpyHeader(Write("f", bytes), DataAccess::Own()).status().message());
  };
  EXPECT_THAT(refusal("PK\3\4zip"), HasSubstr("found magic 504b03047a69"));
  EXPECT_THAT(refusal("\x93NUMPY\1"), HasSubstr("cut short"));
  EXPECT_THAT(refusal(Npy(Dictionary("<f4", "(3,)"), 12, 9)), HasSubstr("version 9"));
  EXPECT_THAT(refusal(Npy(Dictionary(">f4", "(3,)"), 12)), HasSubstr("'>f4'"));
  EXPECT_THAT(refusal(Npy(Dictionary("<c8", "(3,)"), 24)), HasSubstr("'<c8'"));
  EXPECT_THAT(refusal(Npy(Dictionary("<f4", "(3, x)"), 12)), HasSubstr("tuple of integers"));
  EXPECT_THAT(refusal(Npy(Dictionary("<f4", "(4294967296, 4294967296)"), 0)),
              HasSubstr("overflows"));
  EXPECT_THAT(refusal(Npy(Dictionary("<f4", "(3,)"), 11)), HasSubstr("the file has"));
  EXPECT_THAT(refusal(Npy("{'descr': '<f4'}", 4)), HasSubstr("it lacks"));
  EXPECT_THAT(refusal(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16)),
              HasSubstr("Fortran order"));
  EXPECT_THAT(refusal(Npy(Dictionary("<f4", "(3,)"), 12).substr(0, 40)),
              HasSubstr("beyond the file"));
}

TEST_F(DataTest, DescribesIdx) {
  Dataset dataset;
  dataset.mutable_idx()->set_images(Write("i", Idx(8, {12, 4, 4}, 192)));
  dataset.mutable_idx()->set_labels(WriteGzip("l.gz", {Idx(8, {12}, 12)}));
  ASSERT_OK_AND_ASSIGN(DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 12u);
  EXPECT_THAT(info.sample_shape, ElementsAre(4, 4));
  EXPECT_EQ(info.sample_elements(), 16u);
  EXPECT_EQ(info.classes, 0u);
  EXPECT_EQ(info.bytes, 192u);
  EXPECT_EQ(info.type, ElementType::kUint8);
  dataset.set_limit(5);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 5u);
  ASSERT_OK_AND_ASSIGN(const uint64_t classes, CountClasses(dataset, {}));
  EXPECT_EQ(classes, 10u);
}

TEST_F(DataTest, DescribesNpyAndSynthetic) {
  Dataset dataset;
  dataset.mutable_npy()->set_images(Write("i", Npy(Dictionary("<f4", "(2, 3)"), 24)));
  dataset.mutable_npy()->set_labels(Write("l", Npy(Dictionary("<i2", "(2,)"), 4)));
  ASSERT_OK_AND_ASSIGN(DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.type, ElementType::kFloat32);
  EXPECT_THAT(info.sample_shape, ElementsAre(3));
  ASSERT_OK_AND_ASSIGN(uint64_t classes, CountClasses(dataset, {}));
  EXPECT_EQ(classes, 0x0101u + 1);
  dataset.mutable_npy()->set_labels(
      Write("n", Npy(Dictionary("<i2", "(2,)"), 2) + std::string("\xff\xff")));
  EXPECT_THAT(CountClasses(dataset, {}),
              StatusIs(kInvalid, HasSubstr("n: label -1 of sample 1 is not a class number")));
  dataset.mutable_synthetic()->set_examples(7);
  dataset.mutable_synthetic()->set_classes(3);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 7u);
  EXPECT_EQ(info.classes, 3u);
  EXPECT_TRUE(info.sample_shape.empty());
  dataset.mutable_synthetic()->set_examples(uint64_t{1} << 32);
  EXPECT_THAT(DescribeDataset(dataset, {}),
              StatusIs(kInvalid, HasSubstr("4294967296 samples; there must be fewer than 2^32")));
  dataset.set_limit(7);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 7u);
}

TEST_F(DataTest, DescribesWhatOnlyProgramsHave) {
  Dataset dataset;
  dataset.mutable_joiners()->set_examples(7);
  ASSERT_OK_AND_ASSIGN(DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 7u);
  EXPECT_TRUE(info.sample_shape.empty());
  EXPECT_FALSE(CountClasses(dataset, {}).ok());
  EXPECT_OK(ScanValues(dataset, {}, info));
  dataset.mutable_joiners()->Clear();
  dataset.mutable_joiners()->set_unnumbered(true);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, uint64_t{1} << 40);
}

TEST_F(DataTest, FindsValuesThatAreNotFinite) {
  // Four samples of [2, 3], of which `limit` may keep fewer.
  std::vector<float> values(4 * 6, 0.5f);
  values[2 * 6 + 4] = std::numeric_limits<float>::quiet_NaN();
  values[3 * 6] = std::numeric_limits<float>::infinity();
  const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  Dataset dataset;
  dataset.mutable_npy()->set_images(Write("i", Npy(Dictionary("<f4", "(4, 2, 3)"), 0) + bytes));
  dataset.mutable_npy()->set_labels(Write("l", Npy(Dictionary("|u1", "(4,)"), 4)));
  ASSERT_OK_AND_ASSIGN(DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_THAT(ScanValues(dataset, {}, info),
              StatusIs(kInvalid, HasSubstr("i: sample 2 has nan at [1, 1]; 2 of the values of 4 "
                                           "samples are not finite")));
  dataset.set_limit(2);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(dataset, {}));
  EXPECT_OK(ScanValues(dataset, {}, info));
}

TEST_F(DataTest, FindsDamageBehindTheHeader) {
  Dataset dataset;
  // Longer than what the header's reader inflates.
  const std::string images = WriteGzip("i.gz", {Idx(8, {64, 128, 128}, 64 << 14)});
  dataset.mutable_idx()->set_images(images);
  dataset.mutable_idx()->set_labels(Write("l", Idx(8, {64}, 64)));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_OK(ScanValues(dataset, {}, info));
  // The CRC, eight bytes before the end.
  std::fstream file(images, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-8, std::ios::end);
  file.put('!');
  file.close();
  EXPECT_THAT(ScanValues(dataset, {}, info),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("i.gz cannot be read beyond byte")));
}

TEST_F(DataTest, ImagesOfIdsAreBelowTheEmbeddingsRows) {
  Dataset dataset;
  dataset.mutable_idx()->set_images(Write("i", Idx(8, {3, 2, 2}, 12)));  // 0 to 9, 0, 1
  dataset.mutable_idx()->set_labels(Write("l", Idx(8, {3}, 3)));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_OK(ScanValues(dataset, {.id_limit = 10}, info));
  EXPECT_OK(ScanValues(dataset, {.id_limit = 300}, info));
  EXPECT_THAT(ScanValues(dataset, {.id_limit = 9}, info),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("i: byte 25 is 9, not an id below the embedding's 9 rows")));
  dataset.set_limit(2);  // the third sample begins at byte 24
  ASSERT_OK_AND_ASSIGN(const DatasetInfo two, DescribeDataset(dataset, {}));
  EXPECT_OK(ScanValues(dataset, {.id_limit = 8}, two));
}

TEST_F(DataTest, TellsEveryWrongFile) {
  Dataset dataset;
  EXPECT_THAT(DescribeDataset(dataset, {}), StatusIs(kInvalid, HasSubstr("names no source")));
  dataset.mutable_idx()->set_images(folder_ / "absent");
  std::vector<DatasetError> errors;
  EXPECT_FALSE(DescribeDataset(dataset, {}, &errors).ok());
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].field, "idx.images");
  EXPECT_EQ(errors[1].field, "idx.labels");
  EXPECT_THAT(errors[1].status, StatusIs(kInvalid, HasSubstr("no file is named")));
  dataset.mutable_npy()->set_images(Write("i", Npy(Dictionary("<f8", "(2, 3)"), 48)));
  dataset.mutable_npy()->set_labels(Write("l", Npy(Dictionary("<i4", "(2, 1, 1)"), 8)));
  errors.clear();
  EXPECT_FALSE(DescribeDataset(dataset, {}, &errors).ok());
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_THAT(errors[0].status,
              StatusIs(kInvalid, HasSubstr("int32 [2, 1, 1], not integer labels")));
  EXPECT_THAT(errors[1].status,
              StatusIs(kInvalid, HasSubstr("float64 [2, 3], not float32; write")));
}

// Random bytes and damaged headers end in a header or an error.
TEST_F(DataTest, SurvivesDamagedHeaders) {
  const std::string npy = Npy(Dictionary("<f4", "(3, 2)"), 24);
  const std::string idx = Idx(8, {3, 2}, 6);
  for (const std::string& valid : {npy, idx}) {
    for (size_t at = 0; at < std::min<size_t>(valid.size(), 80); ++at) {
      for (const int byte : {0, 1, 0x27, 0x28, 0x7f, 0xff}) {
        std::string bytes = valid;
        bytes[at] = static_cast<char>(byte);
        bytes.resize(std::max<size_t>(1, bytes.size() - (byte == 1 ? at : 0)));
        const std::span<const uint8_t> span(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            bytes.size());
        const auto as_npy = ParseNpyHeader(span, "f");
        const auto as_idx = ParseIdxHeader(span, "f", Quoting::kShow);
        EXPECT_FALSE(as_npy.ok() && as_idx.ok());
      }
    }
  }
}

TEST(FashionMnist, IsWhatThePackageBrings) {
  const std::string folder = "/usr/share/datasets/fashion-mnist/";
  Dataset dataset;
  dataset.mutable_idx()->set_images(folder + "train-images-idx3-ubyte.gz");
  dataset.mutable_idx()->set_labels(folder + "train-labels-idx1-ubyte.gz");
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 60000u);
  EXPECT_THAT(info.sample_shape, ElementsAre(28, 28));
  ASSERT_OK_AND_ASSIGN(const uint64_t classes, CountClasses(dataset, {}));
  EXPECT_EQ(classes, 10u);
}

}  // namespace
}  // namespace monsoon
