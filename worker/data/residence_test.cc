// Data sets in memory and on the disk: the same samples, fingerprints and errors.
#include "worker/data/residence.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "common/data/test_files.h"
#include "common/npz/npz_writer.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/data/array_reader.h"
#include "worker/data/open_dataset.h"
#include "worker/data/prefetcher.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Inputs(const Batch& batch) {
  return {batch.inputs.data(), batch.inputs.data() + batch.examples * batch.values};
}
std::vector<float> Targets(const Batch& batch) {
  return {batch.targets.data(), batch.targets.data() + batch.examples * batch.targets_per_example};
}

class ResidenceTest : public ::testing::Test {
 protected:
  // Both kinds of the set, which have been found alike: the same samples in this order.
  std::vector<std::unique_ptr<DataSource>> OpenBoth(Dataset dataset, const DataContext& context,
                                                    const std::vector<uint32_t>& order) {
    std::vector<std::unique_ptr<DataSource>> sources;
    std::vector<Batch> batches;
    for (const Dataset::Residence residence : {Dataset::IN_MEMORY, Dataset::ON_DISK}) {
      dataset.set_residence(residence);
      absl::StatusOr<std::unique_ptr<DataSource>> source = OpenDataset(dataset, context);
      if (!source.ok()) {
        ADD_FAILURE() << source.status();
        return {};
      }
      batches.emplace_back(order.size(), (*source)->format());
      EXPECT_OK((*source)->Gather(order, &batches.back()));
      sources.push_back(*std::move(source));
    }
    EXPECT_EQ(sources[0]->examples(), sources[1]->examples());
    EXPECT_EQ(sources[0]->format(), sources[1]->format());
    EXPECT_EQ(sources[0]->Fingerprint(), sources[1]->Fingerprint());
    EXPECT_EQ(Inputs(batches[0]), Inputs(batches[1]));
    EXPECT_EQ(batches[0].labels, batches[1].labels);
    EXPECT_EQ(Targets(batches[0]), Targets(batches[1]));
    batch_ = std::move(batches[1]);
    return sources;
  }

  Dataset Npy(const std::string& images, const std::string& labels) {
    Dataset dataset;
    dataset.mutable_npy()->set_images(images);
    dataset.mutable_npy()->set_labels(labels);
    return dataset;
  }

  DataFolder folder_;
  Batch batch_;  // what OpenBoth gathered
};

TEST_F(ResidenceTest, FloatsOverSeveralFiles) {
  folder_.Write("x1.npy", NpyBytes("<f4", "2, 2", Raw<float>({1, 2, 3, 4})));
  folder_.Write("x2.npy", NpyBytes("<f4", "1, 2", Raw<float>({5, 6})));
  Dataset dataset = Npy(folder_.Path("x*.npy"),
                        folder_.Write("y.npy", NpyBytes("<i8", "3,", Raw<int64_t>({4, 0, 9}))));
  dataset.mutable_npy()->set_weights(
      folder_.Write("w.npy", NpyBytes("<f8", "3,", Raw<double>({0.5, 1, 2}))));
  dataset.set_mean(1);
  dataset.set_scale(2);
  ASSERT_FALSE(OpenBoth(dataset, {{2}}, {2, 0, 1, 2}).empty());
  EXPECT_THAT(Inputs(batch_), ElementsAre(8, 10, 0, 2, 4, 6, 8, 10));
  EXPECT_THAT(batch_.labels, ElementsAre(9, 4, 0, 9));
  EXPECT_EQ(batch_.weights.data()[0], 2.0f);
  EXPECT_EQ(batch_.weights.data()[1], 0.5f);
  dataset.set_limit(2);
  const auto two = OpenBoth(dataset, {{2}}, {1, 0});
  ASSERT_FALSE(two.empty());
  EXPECT_EQ(two[1]->examples(), 2u);
}

TEST_F(ResidenceTest, SequencesOfIdsWithLabelsOfEachStep) {
  const Dataset dataset =
      Npy(folder_.Write("x.npy", NpyBytes("<u2", "2, 3", Raw<uint16_t>({1, 2, 60000, 4, 5, 6}))),
          folder_.Write("y.npy", NpyBytes("<i2", "2, 3", Raw<int16_t>({7, 8, 9, 1, 2, 3}))));
  const auto sources = OpenBoth(dataset, {{3}}, {1, 0});
  ASSERT_FALSE(sources.empty());
  EXPECT_EQ(sources[1]->format().labels, 3u);
  EXPECT_THAT(Inputs(batch_), ElementsAre(4, 5, 6, 1, 2, 60000));
  EXPECT_THAT(batch_.labels, ElementsAre(1, 2, 3, 7, 8, 9));
}

TEST_F(ResidenceTest, TargetsInPlaceOfLabels) {
  const std::string x = folder_.Write("x.npy", NpyBytes("<f4", "2, 1", Raw<float>({1, 2})));
  const std::string one = folder_.Write("one.npy", NpyBytes("<f4", "2,", Raw<float>({3, 4})));
  const std::string two =
      folder_.Write("two.npy", NpyBytes("<f8", "2, 2", Raw<double>({3, 4, 5, 6.5})));
  auto sources = OpenBoth(Npy(x, one), {{1}}, {1, 0});
  ASSERT_FALSE(sources.empty());
  EXPECT_EQ(sources[1]->format(), (SampleFormat{.values = 1, .labels = 0, .targets = 1}));
  EXPECT_THAT(Targets(batch_), ElementsAre(4, 3));
  sources = OpenBoth(Npy(x, two), {{1}}, {1, 0});
  ASSERT_FALSE(sources.empty());
  EXPECT_EQ(sources[1]->format(), (SampleFormat{.values = 1, .labels = 0, .targets = 2}));
  EXPECT_THAT(Targets(batch_), ElementsAre(5, 6.5, 3, 4));
}

TEST_F(ResidenceTest, BytesOfChannelsLastImages) {
  std::string pixels;
  for (int i = 0; i < 2 * 12; ++i) {
    pixels.push_back(static_cast<char>(i));
  }
  Dataset dataset = Npy(folder_.Write("x.npy", NpyBytes("|u1", "2, 2, 3, 2", pixels)),
                        folder_.Write("y.npy", NpyBytes("|u1", "2,", std::string("\1\2"))));
  dataset.set_layout(Dataset::NHWC);
  dataset.set_raw(true);
  ASSERT_FALSE(OpenBoth(dataset, {{2, 2, 3}}, {1}).empty());
  EXPECT_THAT(Inputs(batch_), ElementsAre(12, 14, 16, 18, 20, 22, 13, 15, 17, 19, 21, 23));
  dataset.set_raw(false);
  ASSERT_FALSE(OpenBoth(dataset, {{2, 2, 3}}, {0}).empty());
  EXPECT_FLOAT_EQ(batch_.inputs.data()[1], 2 / 255.0f);
}

TEST_F(ResidenceTest, IdxFiles) {
  const std::string images("\0\0\x8\3\0\0\0\2\0\0\0\1\0\0\0\2ABCD", 20);
  const std::string labels("\0\0\x8\1\0\0\0\2\5\6", 10);
  Dataset dataset;
  dataset.mutable_idx()->set_images(folder_.Write("x", images));
  dataset.mutable_idx()->set_labels(folder_.Write("y", labels));
  dataset.set_raw(true);
  ASSERT_FALSE(OpenBoth(dataset, {{1, 2}}, {1, 0}).empty());
  EXPECT_THAT(Inputs(batch_), ElementsAre('C', 'D', 'A', 'B'));
  EXPECT_THAT(batch_.labels, ElementsAre(6, 5));
  dataset.set_residence(Dataset::ON_DISK);
  dataset.mutable_idx()->set_images(folder_.WriteGz("x.gz", images));
  EXPECT_THAT(OpenDataset(dataset, {{1, 2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("x.gz cannot be read with residence: ON_DISK"),
                             HasSubstr("gunzip"))));
}

TEST_F(ResidenceTest, Cifar10Records) {
  folder_.Write("b1.bin", Cifar10Record(3, 0) + Cifar10Record(1, 7));
  folder_.Write("b2.bin", Cifar10Record(9, 100));
  Dataset dataset;
  dataset.mutable_cifar10()->set_file(folder_.Path("b*.bin"));
  ASSERT_FALSE(OpenBoth(dataset, {{3, 32, 32}}, {2, 1}).empty());
  EXPECT_THAT(batch_.labels, ElementsAre(9, 1));
  EXPECT_FLOAT_EQ(batch_.inputs.data()[0], 100 / 255.0f);
  EXPECT_FLOAT_EQ(batch_.inputs.data()[3071], ((100 + 3071) % 251) / 255.0f);
  EXPECT_FLOAT_EQ(batch_.inputs.data()[3072 + 250], ((7 + 250) % 251) / 255.0f);
  // What lies behind the limit is not looked at.
  folder_.Write("b3.bin", Cifar10Record(77, 100));
  EXPECT_THAT(
      OpenDataset(dataset, {{3, 32, 32}}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("b3.bin: record 0 begins with 77")));
  dataset.set_limit(3);
  EXPECT_OK(OpenDataset(dataset, {{3, 32, 32}}));
  EXPECT_THAT(
      OpenDataset(dataset, {{32, 32, 3}}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("samples are [3, 32, 32], the model's input_shape is [32, 32, 3]")));
}

TEST_F(ResidenceTest, TextThatOverlapsAcrossFiles) {
  folder_.Write("t1", "abcde");
  folder_.Write("t2", "fgh");
  Dataset dataset;
  dataset.mutable_text()->set_file(folder_.Path("t?"));
  dataset.mutable_text()->set_stride(2);
  const auto sources = OpenBoth(dataset, {{3}}, {2, 1});
  ASSERT_FALSE(sources.empty());
  EXPECT_EQ(sources[1]->examples(), 3u);  // abc, cde, efg
  EXPECT_THAT(Inputs(batch_), ElementsAre('e', 'f', 'g', 'c', 'd', 'e'));
  EXPECT_THAT(batch_.labels, ElementsAre('f', 'g', 'h', 'd', 'e', 'f'));
  dataset.mutable_text()->set_begin(0.25);  // from byte 2 on: cde, efg
  ASSERT_FALSE(OpenBoth(dataset, {{3}}, {0}).empty());
  EXPECT_THAT(Inputs(batch_), ElementsAre('c', 'd', 'e'));
  // Compressed: kept, and the same.
  folder_.WriteGz("g", "abcdefgh");
  dataset.mutable_text()->set_file(folder_.Path("g"));
  ASSERT_OK_AND_ASSIGN(const auto inflated, OpenDataset(dataset, {{3}}));
  dataset.mutable_text()->set_file(folder_.Path("t?"));
  ASSERT_OK_AND_ASSIGN(const auto plain, OpenDataset(dataset, {{3}}));
  EXPECT_EQ(inflated->Fingerprint(), plain->Fingerprint());
}

TEST_F(ResidenceTest, ArchivesAreKept) {
  const std::string path = folder_.Path("a.npz");
  ASSERT_OK_AND_ASSIGN(NpzWriter writer, NpzWriter::Create(path));
  const std::vector<uint32_t> shape = {2, 2}, two = {2};
  ASSERT_OK(writer.Add("images", shape, std::vector<float>{1, 2, 3, 4}));
  ASSERT_OK(writer.Add("labels", two, std::vector<float>{0.5, 1}));
  ASSERT_OK(writer.Finish());
  Dataset dataset;
  dataset.mutable_npz()->set_file(path);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(dataset, {{2}}));
  Batch batch(1, source->format());
  ASSERT_OK(source->Gather(std::vector<uint32_t>{1}, &batch));
  EXPECT_THAT(Inputs(batch), ElementsAre(3, 4));
  EXPECT_THAT(Targets(batch), ElementsAre(1));
  dataset.set_residence(Dataset::ON_DISK);
  EXPECT_THAT(OpenDataset(dataset, {{2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("write .npy files")));
}

TEST_F(ResidenceTest, NoReaderTakesWhatIsNotFinite) {
  const float nan = std::nanf("");
  const std::string x = folder_.Write("x.npy", NpyBytes("<f4", "2, 1", Raw<float>({1, 2})));
  const std::string bad = folder_.Write("bad.npy", NpyBytes("<f4", "2, 1", Raw<float>({1, nan})));
  const std::string y = folder_.Write("y.npy", NpyBytes("<f4", "2,", Raw<float>({1, 2})));
  const std::string bad_y =
      folder_.Write("bad_y.npy", NpyBytes("<f4", "2, 2", Raw<float>({1, 2, nan, 4})));
  for (const Dataset::Residence residence : {Dataset::IN_MEMORY, Dataset::ON_DISK}) {
    Dataset images = Npy(bad, y), targets = Npy(x, bad_y);
    images.set_residence(residence);
    targets.set_residence(residence);
    EXPECT_THAT(OpenDataset(images, {{1}}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("bad.npy: value nan in sample 1 is not finite")));
    EXPECT_THAT(OpenDataset(targets, {{1}}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("bad_y.npy: target nan of sample 1 is not finite")));
  }
}

TEST_F(ResidenceTest, AFileThatIsCutShortLaterIsNamed) {
  std::vector<float> values(400, 1.0f);
  const std::string x = folder_.Write("x.npy", NpyBytes("<f4", "100, 4", Raw(values)));
  Dataset dataset = Npy(x, folder_.Write("y.npy", NpyBytes("|u1", "100,", std::string(100, '\0'))));
  dataset.set_residence(Dataset::ON_DISK);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(dataset, {{4}}));
  std::filesystem::resize_file(x, 128 + 50 * 16);
  Batch batch(1, source->format());
  EXPECT_OK(source->Gather(std::vector<uint32_t>{49}, &batch));
  EXPECT_THAT(source->Gather(std::vector<uint32_t>{50}, &batch),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("x.npy cannot be read at byte 928: the file ends there")));
  // The prefetcher gives what it had, and then the error, again and again.
  Prefetcher prefetcher(source.get(), {.batch_size = 10, .block_examples = 100});
  prefetcher.AddBlock({.epoch = 0, .block = 0});
  absl::Status end = absl::OkStatus();
  while (end.ok()) {
    end = prefetcher.Next(absl::Seconds(30)).status();
  }
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("x.npy cannot be read")));
  EXPECT_THAT(prefetcher.Next(absl::Seconds(30)).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("x.npy")));
}

TEST_F(ResidenceTest, AutomaticKeepsAQuarterOfWhatIsFree) {
  const std::string x =
      folder_.Write("x.npy", NpyBytes("<f4", "10, 4", Raw(std::vector<float>(40, 1.0f))));
  const Dataset dataset =
      Npy(x, folder_.Write("y.npy", NpyBytes("|u1", "10,", std::string(10, '\0'))));
  // 10 * (16 bytes of values and 4 of a label) = 200.
  for (const auto& [free, kept] : {std::pair<uint64_t, bool>{800, true}, {799, false}}) {
    ReadOptions options = ReadOptions::Of(dataset, {{4}});
    options.free_bytes = free;
    ASSERT_OK_AND_ASSIGN(const auto source, ReadArrays(dataset, options));
    // Where it is kept nobody misses the file.
    std::filesystem::rename(x, x + ".away");
    folder_.Write("x.npy.away", "");
    Batch batch(1, source->format());
    EXPECT_EQ(source->Gather(std::vector<uint32_t>{0}, &batch).ok(), kept) << free;
    folder_.Write("x.npy", NpyBytes("<f4", "10, 4", Raw(std::vector<float>(40, 1.0f))));
  }
  EXPECT_GT(FreeMemoryBytes(), 0u);
}

TEST_F(ResidenceTest, WhatMustBeKeptMustFit) {
  constexpr uint64_t kMib = 1 << 20;
  EXPECT_TRUE(*IsKept(Dataset::IN_MEMORY, 3 * kMib, 3 * kMib, "x.npy", ""));
  EXPECT_THAT(IsKept(Dataset::IN_MEMORY, 3 * kMib, 2 * kMib, "x.npy", "").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("x.npy is to be kept in memory, 3 MiB, and 2 MiB are free; "
                                 "residence: ON_DISK reads it in place")));
  EXPECT_THAT(IsKept(Dataset::AUTOMATIC, 3 * kMib, 2 * kMib, "x.gz", "gunzip it").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("2 MiB are free; it is not read in place: gunzip it")));
  EXPECT_FALSE(*IsKept(Dataset::AUTOMATIC, 3 * kMib, 2 * kMib, "x.npy", ""));
  EXPECT_FALSE(*IsKept(Dataset::ON_DISK, 3 * kMib, 2 * kMib, "x.npy", ""));
}

TEST_F(ResidenceTest, OneChangedByteChangesTheFingerprint) {
  std::string text = "the quick brown fox jumps";
  Dataset dataset;
  dataset.mutable_text()->set_file(folder_.Write("t", text));
  dataset.set_residence(Dataset::ON_DISK);
  ASSERT_OK_AND_ASSIGN(const auto before, OpenDataset(dataset, {{4}}));
  text[24] = 'S';
  folder_.Write("t", text);
  ASSERT_OK_AND_ASSIGN(const auto after, OpenDataset(dataset, {{4}}));
  EXPECT_NE(before->Fingerprint(), after->Fingerprint());
}

}  // namespace
}  // namespace monsoon
