#include "worker/data/open_dataset.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "common/data/test_files.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::monsoon::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string BigEndian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

std::string IdxImages(uint32_t count) {
  std::string bytes = BigEndian(0x803) + BigEndian(count) + BigEndian(2) + BigEndian(3);
  for (uint32_t i = 0; i < count * 6; ++i) {
    bytes.push_back(static_cast<char>(i * 7));
  }
  return bytes;
}

std::string IdxLabels(uint32_t count) {
  std::string bytes = BigEndian(0x801) + BigEndian(count);
  for (uint32_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(i % 3));
  }
  return bytes;
}

class OpenDatasetTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) const {
    return folder_.Write(name, bytes);
  }
  std::string WriteGz(const std::string& name, const std::string& bytes) const {
    return folder_.WriteGz(name, bytes);
  }

  // Cuts or changes a written file.
  void Damage(const std::string& path, size_t keep, int change_at = -1) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    if (change_at >= 0) {
      bytes[static_cast<size_t>(change_at)] ^= 0x55;
    }
    std::ofstream(path, std::ios::binary) << bytes.substr(0, keep);
  }

  static Dataset Idx(const std::string& images, const std::string& labels) {
    Dataset dataset;
    dataset.mutable_idx()->set_images(images);
    dataset.mutable_idx()->set_labels(labels);
    return dataset;
  }

  static Dataset NpyFiles(const std::string& images, const std::string& labels) {
    Dataset dataset;
    dataset.mutable_npy()->set_images(images);
    dataset.mutable_npy()->set_labels(labels);
    return dataset;
  }

  const DataFolder folder_;
};

TEST_F(OpenDatasetTest, IdxPlainAndCompressedGiveTheSameSamples) {
  const auto plain = Idx(Write("i", IdxImages(5)), Write("l", IdxLabels(5)));
  const auto compressed = Idx(WriteGz("i.gz", IdxImages(5)), WriteGz("l.gz", IdxLabels(5)));
  uint64_t fingerprints[2];
  int i = 0;
  for (const Dataset& dataset : {plain, compressed}) {
    ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(dataset, {{6}}));
    EXPECT_EQ(source->examples(), 5u);
    Batch batch(3, 6);
    EXPECT_OK(source->Gather(std::vector<uint32_t>{4, 1}, &batch));
    EXPECT_EQ(batch.examples, 2u);
    EXPECT_EQ(batch.labels[0], 1u);
    EXPECT_EQ(batch.labels[1], 1u);
    EXPECT_FLOAT_EQ(batch.inputs.data()[0], (24 * 7 % 256) / 255.0f);
    EXPECT_FLOAT_EQ(batch.inputs.data()[11], (11 * 7 % 256) / 255.0f);
    fingerprints[i++] = source->Fingerprint();
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
}

TEST_F(OpenDatasetTest, LimitAndNormalisation) {
  Dataset dataset = Idx(Write("i", IdxImages(5)), Write("l", IdxLabels(5)));
  ASSERT_OK_AND_ASSIGN(const auto all, OpenDataset(dataset, {{6}}));
  dataset.set_limit(2);
  dataset.set_mean(0.5);
  dataset.set_scale(2);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(dataset, {{6}}));
  EXPECT_EQ(source->examples(), 2u);
  EXPECT_NE(source->Fingerprint(), all->Fingerprint());
  Batch batch(1, 6);
  EXPECT_OK(source->Gather(std::vector<uint32_t>{1}, &batch));
  EXPECT_NEAR(batch.inputs.data()[2], (8 * 7 / 255.0 - 0.5) * 2, 1e-6);
}

TEST_F(OpenDatasetTest, TheFingerprintSeesOneChangedByte) {
  const std::string labels = Write("l", IdxLabels(5));
  std::string bytes = IdxImages(5);
  ASSERT_OK_AND_ASSIGN(const auto one, OpenDataset(Idx(Write("i", bytes), labels), {{6}}));
  bytes.back() ^= 1;
  ASSERT_OK_AND_ASSIGN(const auto two, OpenDataset(Idx(Write("j", bytes), labels), {{6}}));
  EXPECT_NE(one->Fingerprint(), two->Fingerprint());
}

TEST_F(OpenDatasetTest, NpyFloatsAndBytesWithAnyIntegerLabels) {
  const std::string floats =
      Write("f.npy", NpyBytes("<f4", "2, 3", Raw<float>({1, 2, 3, 4, 5, 6})));
  const std::string bytes =
      Write("b.npy", NpyBytes("|u1", "2, 3", Raw<uint8_t>({0, 51, 255, 1, 2, 3})));
  const std::string wide = Write("w.npy", NpyBytes("<i8", "2,", Raw<int64_t>({7, 2})));
  const std::string narrow = Write("n.npy", NpyBytes("|u1", "2,", Raw<uint8_t>({7, 200})));
  ASSERT_OK_AND_ASSIGN(const auto one, OpenDataset(NpyFiles(floats, wide), {{3}}));
  ASSERT_OK_AND_ASSIGN(const auto two, OpenDataset(NpyFiles(bytes, narrow), {{3}}));
  Batch batch(2, 3);
  EXPECT_OK(one->Gather(std::vector<uint32_t>{1, 0}, &batch));
  EXPECT_EQ(std::vector<float>(batch.inputs.data(), batch.inputs.data() + 6),
            (std::vector<float>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(batch.labels, (std::vector<uint32_t>{2, 7}));
  EXPECT_OK(two->Gather(std::vector<uint32_t>{0, 1}, &batch));
  EXPECT_FLOAT_EQ(batch.inputs.data()[1], 0.2f);
  EXPECT_EQ(batch.labels, (std::vector<uint32_t>{7, 200}));
}

// Pixel (h, w) of channel c has the value 100 c + 10 h + w.
TEST_F(OpenDatasetTest, ChannelsLastImagesComeAsTheModelHasThem) {
  std::vector<float> last;
  std::vector<uint8_t> last_bytes;
  std::vector<float> first;
  for (int sample = 0; sample < 2; ++sample) {
    for (int h = 0; h < 3; ++h) {
      for (int w = 0; w < 4; ++w) {
        for (int c = 0; c < 2; ++c) {
          last.push_back(static_cast<float>(100 * c + 10 * h + w + 1000 * sample));
          last_bytes.push_back(static_cast<uint8_t>(100 * c + 10 * h + w + sample));
        }
      }
    }
    for (int c = 0; c < 2; ++c) {
      for (int h = 0; h < 3; ++h) {
        for (int w = 0; w < 4; ++w) {
          first.push_back(static_cast<float>(100 * c + 10 * h + w + 1000 * sample));
        }
      }
    }
  }
  const std::string labels = Write("l.npy", NpyBytes("|u1", "2,", Raw<uint8_t>({0, 1})));
  Dataset floats = NpyFiles(Write("f.npy", NpyBytes("<f4", "2, 3, 4, 2", Raw(last))), labels);
  Dataset bytes = NpyFiles(Write("b.npy", NpyBytes("|u1", "2, 3, 4, 2", Raw(last_bytes))), labels);
  const std::vector<uint32_t> input = {2, 3, 4};
  EXPECT_THAT(OpenDataset(floats, {input}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("f.npy"), HasSubstr("[3, 4, 2]"), HasSubstr("[2, 3, 4]"),
                             HasSubstr("layout: NHWC"))));
  floats.set_layout(Dataset::NHWC);
  bytes.set_layout(Dataset::NHWC);
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(floats, {input}));
  ASSERT_OK_AND_ASSIGN(const auto byte_source, OpenDataset(bytes, {input}));
  Batch batch(2, 24), byte_batch(2, 24);
  EXPECT_OK(source->Gather(std::vector<uint32_t>{0, 1}, &batch));
  EXPECT_OK(byte_source->Gather(std::vector<uint32_t>{0, 1}, &byte_batch));
  for (size_t i = 0; i < 48; ++i) {
    EXPECT_EQ(batch.inputs.data()[i], first[i]) << i;
    const int in_byte = static_cast<int>(first[i]) % 1000 + static_cast<int>(first[i]) / 1000;
    EXPECT_FLOAT_EQ(byte_batch.inputs.data()[i], static_cast<float>(in_byte) / 255.0f) << i;
  }
}

TEST_F(OpenDatasetTest, NpyErrorsNameTheFileAndTheValue) {
  const float nan = std::nanf("");
  const std::string bad = Write("nan.npy", NpyBytes("<f4", "2, 2", Raw<float>({1, 2, 3, nan})));
  const std::string good = Write("good.npy", NpyBytes("<f4", "2, 2", Raw<float>({1, 2, 3, 4})));
  const std::string labels = Write("l.npy", NpyBytes("<i4", "2,", Raw<int32_t>({0, 1})));
  const std::string negative = Write("neg.npy", NpyBytes("<i4", "2,", Raw<int32_t>({0, -1})));
  EXPECT_THAT(OpenDataset(NpyFiles(bad, labels), {{2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(bad), HasSubstr("sample 1"), HasSubstr("not finite"))));
  EXPECT_THAT(OpenDataset(NpyFiles(good, negative), {{2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(negative), HasSubstr("label -1 of sample 1"))));
  EXPECT_THAT(OpenDataset(NpyFiles(labels, good), {{2}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(labels)));
}

TEST_F(OpenDatasetTest, DamagedFilesAreNamed) {
  const std::string labels = Write("l", IdxLabels(2000));
  const std::string cut = WriteGz("cut.gz", IdxImages(2000));
  Damage(cut, std::filesystem::file_size(cut) / 2);
  // Not the trailer's claim of a length, the content itself.
  const std::string flipped = WriteGz("flipped.gz", IdxImages(2000));
  const auto size = std::filesystem::file_size(flipped);
  Damage(flipped, size, static_cast<int>(size / 2));
  const std::string wrong_crc = WriteGz("crc.gz", IdxImages(2000));
  Damage(wrong_crc, size, static_cast<int>(size - 8));
  std::string garbage_bytes("\x1f\x8b\x08\x00", 4);
  garbage_bytes += std::string(100, '\x77');
  const std::string garbage = Write("garbage.gz", garbage_bytes);
  const std::string text = Write("text", "this is no data set, but a text of some length");
  const std::string plain_cut = Write("plain_cut", IdxImages(2000).substr(0, 5000));
  const std::string plain_long = Write("plain_long", IdxImages(2000) + "x");
  for (const std::string& path :
       {cut, flipped, wrong_crc, garbage, text, plain_cut, plain_long, folder_.Path("missing")}) {
    const absl::Status status = OpenDataset(Idx(path, labels), {{6}}).status();
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST_F(OpenDatasetTest, RefusesWhatDoesNotFit) {
  const std::string images = Write("i", IdxImages(5));
  EXPECT_THAT(OpenDataset(Idx(images, Write("l4", IdxLabels(4))), {{6}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("l4")));
  EXPECT_THAT(OpenDataset(Idx(images, images), {{6}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("label")));
  EXPECT_THAT(
      OpenDataset(Idx(images, Write("l", IdxLabels(5))), {{784}}).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("6 values"), HasSubstr("784"))));
  EXPECT_THAT(OpenDataset(Dataset(), {{6}}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no source")));
}

TEST_F(OpenDatasetTest, ATextToPredictForNeedsNoByteBehindItsLastWindow) {
  Dataset dataset;
  dataset.mutable_text()->set_file(Write("t", "abcdefgh"));
  DataContext context = {{4}};
  ASSERT_OK_AND_ASSIGN(const auto labelled, OpenDataset(dataset, context));
  EXPECT_EQ(labelled->examples(), 1u);
  context.unlabelled = true;
  ASSERT_OK_AND_ASSIGN(const auto source, OpenDataset(dataset, context));
  ASSERT_EQ(source->examples(), 2u);
  Batch batch(1, source->format());
  EXPECT_OK(source->Gather(std::vector<uint32_t>{1}, &batch));
  EXPECT_EQ(std::string(batch.inputs.data(), batch.inputs.data() + 4), "efgh");
}

}  // namespace
}  // namespace monsoon
