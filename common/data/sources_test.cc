// What is told of npy, npz, cifar10 and text data from headers, and by a scan.
#include <cmath>
#include <limits>

#include "common/data/access/data_access.h"
#include "common/data/content_files.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/data/file_pattern.h"
#include "common/data/scan_values.h"
#include "common/data/source_kind.h"
#include "common/data/test_files.h"
#include "common/npz/npz_writer.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
const float kNan = std::numeric_limits<float>::quiet_NaN();

class SourcesTest : public ::testing::Test {
 protected:
  Dataset Npy(const std::string& images, const std::string& labels,
              const std::string& weights = "") {
    Dataset dataset;
    dataset.mutable_npy()->set_images(images);
    dataset.mutable_npy()->set_labels(labels);
    dataset.mutable_npy()->set_weights(weights);
    return dataset;
  }
  static Dataset Text(const std::string& file) {
    Dataset dataset;
    dataset.mutable_text()->set_file(file);
    return dataset;
  }
  static Dataset Cifar10(const std::string& file) {
    Dataset dataset;
    dataset.mutable_cifar10()->set_file(file);
    return dataset;
  }
  static std::string Refusal(const Dataset& dataset, const DataContext& context = {}) {
    return std::string(DescribeDataset(dataset, context).status().message());
  }

  DataFolder folder_;
};

TEST_F(SourcesTest, AnArraysTypesSayWhatItIs) {
  const std::string ids =
      folder_.Write("ids.npy", NpyBytes("<i4", "3, 2", Raw<int32_t>({1, 2, 3, 4, 5, 600})));
  const std::string steps =
      folder_.Write("steps.npy", NpyBytes("<i8", "3, 2", Raw<int64_t>({0, 7, 1, 2, 3, 4})));
  const std::string targets =
      folder_.Write("targets.npy", NpyBytes("<f8", "3, 4", std::string(96, '\0')));
  const std::string weights =
      folder_.Write("weights.npy", NpyBytes("<f4", "3,", Raw<float>({1, 0, 2.5})));
  ASSERT_OK_AND_ASSIGN(DatasetInfo info, DescribeDataset(Npy(ids, steps), {}));
  EXPECT_EQ(info.examples, 3u);
  EXPECT_EQ(info.type, ElementType::kInteger);
  EXPECT_EQ(info.labels, 2u);
  EXPECT_EQ(info.targets, 0u);
  EXPECT_FALSE(info.weighted);
  EXPECT_EQ(info.bytes, 24u);
  ASSERT_OK_AND_ASSIGN(uint64_t classes, CountClasses(Npy(ids, steps), {}));
  EXPECT_EQ(classes, 8u);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(Npy(ids, targets, weights), {}));
  EXPECT_EQ(info.labels, 0u);
  EXPECT_EQ(info.targets, 4u);
  EXPECT_TRUE(info.weighted);
  ASSERT_OK_AND_ASSIGN(classes, CountClasses(Npy(ids, targets, weights), {}));
  EXPECT_EQ(classes, 0u);
  EXPECT_OK(ScanValues(Npy(ids, targets, weights), {}, info));

  Dataset bytes = Npy(folder_.Write("b.npy", NpyBytes("|u1", "3, 2", "abcdef")), steps);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(bytes, {}));
  EXPECT_EQ(info.type, ElementType::kUint8);
  bytes.set_raw(true);
  ASSERT_OK_AND_ASSIGN(info, DescribeDataset(bytes, {}));
  EXPECT_EQ(info.type, ElementType::kInteger);
}

TEST_F(SourcesTest, ArraysThatDoNotFitAreToldWithBothSides) {
  const std::string three =
      folder_.Write("three.npy", NpyBytes("<f4", "3, 1", Raw<float>({1, 2, 3})));
  const std::string two = folder_.Write("two.npy", NpyBytes("<i4", "2,", Raw<int32_t>({0, 1})));
  const std::string ints =
      folder_.Write("ints.npy", NpyBytes("<i4", "3,", Raw<int32_t>({0, 1, 1})));
  const std::string flat = folder_.Write("flat.npy", NpyBytes("<f4", "3,", Raw<float>({1, 2, 3})));
  EXPECT_THAT(Refusal(Npy(three, two)),
              AllOf(HasSubstr(three + " has 3 samples"), HasSubstr(two + " has 2 labels")));
  EXPECT_THAT(Refusal(Npy(three, ints, ints)),
              HasSubstr(ints + " holds int32 [3], not weights [n] of floats"));
  EXPECT_THAT(Refusal(Npy(flat, ints)), HasSubstr("float32 [3], not samples [n, ...]"));
  EXPECT_THAT(Refusal(Npy(three, "")), HasSubstr("no file is named"));
}

TEST_F(SourcesTest, AScanFindsWhatIsNoNumber) {
  const std::string images = folder_.Write("i.npy", NpyBytes("<f4", "2, 1", Raw<float>({1, 2})));
  const std::string large =
      folder_.Write("large.npy", NpyBytes("<i4", "2, 1", Raw<int32_t>({1, (1 << 24) + 1})));
  const std::string labels = folder_.Write("l.npy", NpyBytes("|u1", "2,", std::string(2, '\0')));
  const std::string targets = folder_.Write("t.npy", NpyBytes("<f4", "2,", Raw<float>({1, kNan})));
  const std::string weights = folder_.Write("w.npy", NpyBytes("<f4", "2,", Raw<float>({1, -1})));
  const auto scan = [](Dataset dataset, uint64_t limit = 0) {
    dataset.set_limit(limit);
    const absl::StatusOr<DatasetInfo> info = DescribeDataset(dataset, {});
    return info.ok() ? ScanValues(dataset, {}, *info) : info.status();
  };
  EXPECT_THAT(scan(Npy(images, targets)),
              StatusIs(kInvalid, HasSubstr("t.npy: target nan of sample 1 is not finite")));
  EXPECT_THAT(scan(Npy(images, labels, weights)),
              StatusIs(kInvalid, HasSubstr("w.npy: weight -1 of sample 1")));
  EXPECT_THAT(scan(Npy(large, labels)),
              StatusIs(kInvalid, HasSubstr("large.npy: integer 16777217 of sample 1")));
  // Samples that are left out may have anything.
  EXPECT_OK(scan(Npy(images, targets), 1));
  EXPECT_OK(scan(Npy(images, labels, weights), 1));
}

TEST_F(SourcesTest, AScanFindsWhatTheModelCannotTake) {
  const std::string ids =
      folder_.Write("ids.npy", NpyBytes("<i4", "2, 2", Raw<int32_t>({0, 8, 3, 9})));
  const std::string halves =
      folder_.Write("halves.npy", NpyBytes("<f4", "2, 2", Raw<float>({0, 1, 0.5, kNan})));
  const std::string targets = folder_.Write("t.npy", NpyBytes("<f4", "2,", Raw<float>({1, 1.5})));
  Job job;
  job.mutable_model()->add_input_shape(2);
  const auto scan = [&job](const Dataset& dataset) {
    const absl::StatusOr<DatasetInfo> info = DescribeDataset(dataset, {});
    return info.ok() ? ScanValues(dataset, TrainingContext(job, DataAccess::Own()), *info)
                     : info.status();
  };
  job.mutable_model()->set_loss(MEAN_SQUARED_ERROR);
  EXPECT_OK(scan(Npy(ids, targets)));
  job.mutable_model()->set_loss(BINARY_CROSS_ENTROPY);
  EXPECT_THAT(scan(Npy(ids, targets)),
              StatusIs(kInvalid, HasSubstr("t.npy: target 1.5 of sample 1 is outside [0, 1]")));
  job.mutable_model()->set_loss(MEAN_SQUARED_ERROR);
  job.mutable_model()->add_layer()->mutable_embedding()->set_rows(20);
  EXPECT_OK(scan(Npy(ids, targets)));
  job.mutable_model()->add_layer()->mutable_embedding()->set_rows(9);
  EXPECT_THAT(scan(Npy(ids, targets)),
              StatusIs(kInvalid, HasSubstr("ids.npy: id 9 of sample 1 is not a whole number from "
                                           "0 and below the embedding's 9 rows")));
  EXPECT_THAT(scan(Npy(halves, targets)),
              StatusIs(kInvalid, HasSubstr("halves.npy: id 0.5 of sample 1")));
}

TEST_F(SourcesTest, FilesOfAPatternFollowOneAnother) {
  folder_.Write("part-2.npy", NpyBytes("<f4", "1, 2", Raw<float>({5, 6})));
  folder_.Write("part-1.npy", NpyBytes("<f4", "2, 2", Raw<float>({1, 2, 3, kNan})));
  folder_.Write("labels-1.npy", NpyBytes("<i4", "2,", Raw<int32_t>({0, 3})));
  folder_.Write("labels-2.npy", NpyBytes("<i4", "1,", Raw<int32_t>({1})));
  const Dataset dataset = Npy(folder_.Path("part-*.npy"), folder_.Path("labels-?.npy"));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 3u);
  ASSERT_OK_AND_ASSIGN(const uint64_t classes, CountClasses(dataset, {}));
  EXPECT_EQ(classes, 4u);
  EXPECT_THAT(ScanValues(dataset, {}, info),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("part-*.npy"), HasSubstr("sample 1 (sample 1 of "),
                             HasSubstr("part-1.npy) has nan at [1]"), HasSubstr("of 3 samples"))));
  folder_.Write("labels-2.npy", NpyBytes("<i4", "1,", Raw<int32_t>({-4})));
  EXPECT_THAT(CountClasses(dataset, {}),
              StatusIs(kInvalid, AllOf(HasSubstr("label -4 of sample 2 (sample 0 of "),
                                       HasSubstr("labels-2.npy) is not a class number"))));
  EXPECT_THAT(DescribeDataset(Npy(folder_.Path("none-*.npy"), folder_.Path("labels-?.npy")), {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no file is named like")));
  folder_.Write("part-3.npy", NpyBytes("<f4", "1, 3", Raw<float>({5, 6, 7})));
  EXPECT_THAT(Refusal(dataset), AllOf(HasSubstr("part-3.npy holds float32 [1, 3]"),
                                      HasSubstr("part-1.npy has rows of float32 [2]")));
  // A file of the very name is that file.
  const std::string odd =
      folder_.Write("part-[1].npy", NpyBytes("<f4", "1, 2", Raw<float>({5, 6})));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> files, FilesOf(odd, DataRoots::Anywhere()));
  EXPECT_THAT(files, ElementsAre(odd));
}

TEST_F(SourcesTest, ArchivesHaveArraysByName) {
  const std::string path = folder_.Path("a.npz");
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path));
  const std::vector<uint32_t> shape = {2, 3}, two = {2};
  ASSERT_OK(writer.Add("images", shape, std::vector<float>{1, 2, 3, 4, 5, kNan}));
  ASSERT_OK(writer.Add("y", two, std::vector<float>{0.5, 1}));
  ASSERT_OK(writer.Add("weights", two, std::vector<float>{1, 2}));
  ASSERT_OK(writer.Finish());
  Dataset dataset;
  dataset.mutable_npz()->set_file(path);
  EXPECT_THAT(Refusal(dataset), HasSubstr("a.npz has no member labels.npy; it has images"));
  dataset.mutable_npz()->set_labels("y");
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info, DescribeDataset(dataset, {}));
  EXPECT_EQ(info.examples, 2u);
  EXPECT_EQ(info.targets, 1u);
  EXPECT_TRUE(info.weighted);
  EXPECT_THAT(ScanValues(dataset, {}, info),
              StatusIs(kInvalid, HasSubstr("a.npz: array images: sample 1 has nan at [2]")));
  dataset.mutable_npz()->set_file(folder_.Write("b.npz", "no zip"));
  EXPECT_THAT(Refusal(dataset), HasSubstr("b.npz is not a usable .npz file"));
}

TEST_F(SourcesTest, Cifar10IsWholeRecordsWithLabelsBelowTen) {
  const std::string good = folder_.Write("g1.bin", Cifar10Record(3, 0) + Cifar10Record(9, 1));
  folder_.WriteGz("g2.bin", Cifar10Record(0, 5));
  ASSERT_OK_AND_ASSIGN(const DatasetInfo info,
                       DescribeDataset(Cifar10(folder_.Path("g?.bin")), {}));
  EXPECT_EQ(info.examples, 3u);
  EXPECT_THAT(info.sample_shape, ElementsAre(3, 32, 32));
  ASSERT_OK_AND_ASSIGN(const uint64_t classes, CountClasses(Cifar10(good), {}));
  EXPECT_EQ(classes, 10u);
  EXPECT_THAT(Refusal(Cifar10(folder_.Write("cut.bin", Cifar10Record(1, 0) + "x"))),
              AllOf(HasSubstr("cut.bin has 3074 bytes"), HasSubstr("records of 3073")));
  // Records begin anywhere in the pieces that are read.
  std::string many;
  for (int i = 0; i < 50; ++i) {
    many += Cifar10Record(static_cast<uint8_t>(i == 41 ? 10 : i % 7), 0);
  }
  EXPECT_THAT(CountClasses(Cifar10(folder_.Write("many.bin", many)), {}),
              StatusIs(kInvalid, HasSubstr("many.bin: record 41 begins with 10")));
  folder_.Write("many-2.bin", std::string(many.begin() + 40 * 3073, many.end()));
  many[41 * 3073] = 6;
  folder_.Write("many-1.bin", many);
  EXPECT_THAT(CountClasses(Cifar10(folder_.Path("many-?.bin")), {}),
              StatusIs(kInvalid, HasSubstr("many-2.bin: record 1 begins with 10")));
  ASSERT_OK_AND_ASSIGN(const uint64_t seven,
                       CountClasses(Cifar10(folder_.Write("m.bin", many)), {}));
  EXPECT_EQ(seven, 7u);
}

TEST_F(SourcesTest, ATextsSamplesAreCounted) {
  const DataContext context = {{4}};
  const std::string ten = folder_.Write("ten", "0123456789");
  const auto samples = [&](uint32_t window, uint32_t stride, double begin = 0, double end = 0) {
    Dataset dataset = Text(ten);
    dataset.mutable_text()->set_window(window);
    dataset.mutable_text()->set_stride(stride);
    dataset.mutable_text()->set_begin(begin);
    dataset.mutable_text()->set_end(end);
    const absl::StatusOr<DatasetInfo> info = DescribeDataset(dataset, context);
    return info.ok() ? info->examples : 0;
  };
  EXPECT_EQ(samples(0, 0), 2u);  // window 4: bytes 0-4, 4-8
  EXPECT_EQ(samples(4, 1), 6u);  // floor((10 - 1 - 4) / 1) + 1
  EXPECT_EQ(samples(4, 3), 2u);
  EXPECT_EQ(samples(9, 1), 1u);
  EXPECT_EQ(samples(10, 1), 0u);  // a byte too few
  EXPECT_EQ(samples(4, 1, 0.5), 1u);
  EXPECT_EQ(samples(4, 1, 0, 0.5), 1u);
  EXPECT_EQ(samples(4, 1, 0.51, 1), 1u);  // from byte 5 on
  EXPECT_EQ(samples(4, 1, 0.6, 0.5), 0u);
  EXPECT_THAT(Refusal(Text(folder_.Write("short", "0123")), context),
              HasSubstr("short: 4 bytes of text, a sample of a window of 4 needs 5"));
  EXPECT_THAT(Refusal(Text(ten)), HasSubstr("a window of 0 bytes"));
  DataContext unlabelled = context;
  unlabelled.unlabelled = true;  // no byte behind the window is needed
  ASSERT_OK_AND_ASSIGN(const DatasetInfo one,
                       DescribeDataset(Text(folder_.Path("short")), unlabelled));
  EXPECT_EQ(one.examples, 1u);
  EXPECT_THAT(Refusal(Text(folder_.Write("shorter", "012")), unlabelled),
              HasSubstr("shorter: 3 bytes of text, a sample of a window of 4 needs 4"));

  // '0' is 48. The ids of the two samples of ten are its bytes 0 to 7, bytes that are
  // a label or in no window may be anything.
  DataContext rows = context;
  rows.id_limit = 55;
  ASSERT_OK_AND_ASSIGN(const DatasetInfo two, DescribeDataset(Text(ten), rows));
  EXPECT_EQ(two.examples, 2u);
  EXPECT_THAT(ScanValues(Text(ten), rows, two),
              StatusIs(kInvalid, HasSubstr("ten: byte 7 is 55, and the embedding has 55 rows")));
  rows.id_limit = 56;
  EXPECT_OK(ScanValues(Text(ten), rows, two));
  Dataset apart = Text(folder_.Write("apart", "01xx01xx01"));
  apart.mutable_text()->set_window(2);
  apart.mutable_text()->set_stride(4);
  ASSERT_OK_AND_ASSIGN(DatasetInfo gaps, DescribeDataset(apart, rows));
  EXPECT_OK(ScanValues(apart, rows, gaps));
  apart.mutable_text()->set_stride(3);
  ASSERT_OK_AND_ASSIGN(gaps, DescribeDataset(apart, rows));
  EXPECT_THAT(ScanValues(apart, rows, gaps), StatusIs(kInvalid, HasSubstr("apart: byte 3 is 120")));

  folder_.WriteGz("ten.gz", "0123456789");
  ASSERT_OK_AND_ASSIGN(const DatasetInfo both,
                       DescribeDataset(Text(folder_.Path("ten*")), context));
  EXPECT_EQ(both.bytes, 20u);
  EXPECT_EQ(both.examples, 4u);
  EXPECT_EQ(both.labels, 4u);
  ASSERT_OK_AND_ASSIGN(const std::vector<ContentFile> files,
                       OpenContentFiles(folder_.Path("ten*"), DataRoots::Anywhere()));
  EXPECT_THAT(ContentPlace(files, 9), EndsWith("/ten: byte 9"));
  EXPECT_THAT(ContentPlace(files, 10), EndsWith("/ten.gz: byte 0"));
  EXPECT_THAT(ContentPlace(files, 20), EndsWith("/ten.gz: byte 10"));
  folder_.Write("ten2", "0x2345");
  rows.id_limit = 58;
  ASSERT_OK_AND_ASSIGN(const DatasetInfo three, DescribeDataset(Text(folder_.Path("ten*")), rows));
  EXPECT_THAT(ScanValues(Text(folder_.Path("ten*")), rows, three),
              StatusIs(kInvalid, HasSubstr("ten2: byte 1 is 120, and the embedding has 58 rows")));
  std::string content;
  ASSERT_OK(StreamContent(files, DataRoots::Anywhere(), 7, 13, [&](std::span<const uint8_t> bytes) {
    content.append(bytes.begin(), bytes.end());
    return absl::OkStatus();
  }));
  EXPECT_EQ(content, "789012");
}

// A field of a source that names files and is not visited stays relative to nothing.
TEST_F(SourcesTest, EveryPathIsVisited) {
  for (const Dataset::SourceCase source :
       {Dataset::kIdx, Dataset::kNpy, Dataset::kNpz, Dataset::kCifar10, Dataset::kText}) {
    Dataset dataset;
    const auto* const field = Dataset::descriptor()->FindFieldByNumber(static_cast<int>(source));
    dataset.GetReflection()->MutableMessage(&dataset, field);
    int visited = 0;
    VisitPaths(&dataset, [&](std::string* path) { *path = "p" + std::to_string(visited++); });
    EXPECT_GE(visited, 1) << field->name();
    EXPECT_THAT(dataset.ShortDebugString(), HasSubstr("\"p0\"")) << field->name();
  }
}

}  // namespace
}  // namespace monsoon
