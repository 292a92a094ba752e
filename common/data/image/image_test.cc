// Decoding and fitting of images.
#include <cstring>

#include "common/data/image/image_decoder.h"
#include "common/data/image/image_fit.h"
#include "common/data/image/image_test_files.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<Image> Decode(const std::string& file) {
  return DecodeImage({reinterpret_cast<const uint8_t*>(file.data()), file.size()}, "a.img");
}

TEST(PngTest, DecodesGreyAndColours) {
  ASSERT_OK_AND_ASSIGN(Image image, Decode(PngFile(2, 3, 1, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(image.width, 2u);
  EXPECT_EQ(image.height, 3u);
  EXPECT_EQ(image.channels, 1u);
  EXPECT_THAT(image.pixels, ElementsAre(1, 2, 3, 4, 5, 6));
  ASSERT_OK_AND_ASSIGN(image, Decode(PngFile(1, 2, 3, {10, 20, 30, 40, 50, 60})));
  EXPECT_EQ(image.channels, 3u);
  EXPECT_THAT(image.pixels, ElementsAre(10, 20, 30, 40, 50, 60));
}

TEST(PngTest, LaysAlphaOverBlack) {
  // 200 * 128 / 255 = 100.39, 100 * 128 / 255 = 50.2.
  ASSERT_OK_AND_ASSIGN(Image image, Decode(PngFile(2, 1, 2, {200, 128, 200, 255})));
  EXPECT_EQ(image.channels, 1u);
  EXPECT_THAT(image.pixels, ElementsAre(100, 200));
  ASSERT_OK_AND_ASSIGN(image, Decode(PngFile(2, 1, 4, {200, 100, 0, 128, 9, 8, 7, 0})));
  EXPECT_EQ(image.channels, 3u);
  EXPECT_THAT(image.pixels, ElementsAre(100, 50, 0, 0, 0, 0));
}

TEST(PngTest, SixteenBitsBecomeEight) {
  // 0x8080 = 128 * 257; 0xff00 * 255 / 65535 = 254.004.
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(PngFile(2, 1, 1, {0x80, 0x80, 0xff, 0x00}, 16)));
  EXPECT_THAT(image.pixels, ElementsAre(128, 254));
}

TEST(PngTest, DecodesInterlaced) {
  std::vector<uint8_t> values(9 * 11 * 3);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint8_t>(i * 7);
  }
  ASSERT_OK_AND_ASSIGN(const Image image, Decode(PngFile(9, 11, 3, values, 8, true)));
  EXPECT_THAT(image.pixels, ElementsAreArray(values));
}

TEST(PngTest, RefusesDamage) {
  const std::string file = PngFile(8, 8, 1, std::vector<uint8_t>(64, 77));
  for (size_t size = 8; size < file.size(); size += 5) {
    EXPECT_THAT(Decode(file.substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a.img: not a whole PNG file")))
        << size;
  }
  std::string flipped = file;
  flipped[file.find("IDAT") + 8] ^= 1;
  EXPECT_THAT(Decode(flipped), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("IDAT")));
}

TEST(PngTest, RefusesMorePixelsThanItDecodes) {
  // The size stands in the first chunk, whose CRC is of a file that says so.
  std::string file = PngFile(1, 1, 1, {0});
  const auto crc = [&] {
    uint32_t sum = 0xffffffff;
    for (size_t i = 12; i < 29; ++i) {
      sum ^= static_cast<uint8_t>(file[i]);
      for (int bit = 0; bit < 8; ++bit) {
        sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
      }
    }
    return ~sum;
  };
  file[17] = 1;  // 65537
  file[21] = 1;
  const uint32_t sum = crc();
  for (size_t i = 0; i < 4; ++i) {
    file[29 + i] = static_cast<char>(sum >> (24 - 8 * i));
  }
  EXPECT_THAT(Decode(file),
              StatusIs(kInvalid, HasSubstr("a.img: 65537 x 65537 pixels are more than")));
}

TEST(JpegTest, DecodesGreyAndColours) {
  ASSERT_OK_AND_ASSIGN(Image image, Decode(JpegFile(16, 8, 1, std::vector<uint8_t>(128, 90))));
  EXPECT_EQ(image.width, 16u);
  EXPECT_EQ(image.height, 8u);
  EXPECT_EQ(image.channels, 1u);
  EXPECT_THAT(image.pixels, Each(90));
  std::vector<uint8_t> red;
  for (int i = 0; i < 64; ++i) {
    red.insert(red.end(), {200, 40, 60});
  }
  ASSERT_OK_AND_ASSIGN(image, Decode(JpegFile(8, 8, 3, red)));
  EXPECT_EQ(image.channels, 3u);
  ASSERT_EQ(image.pixels.size(), red.size());
  for (size_t i = 0; i < red.size(); ++i) {
    EXPECT_NEAR(image.pixels[i], red[i], 3) << i;
  }
}

TEST(JpegTest, RefusesCmykByName) {
  EXPECT_THAT(Decode(JpegFile(8, 8, 4, std::vector<uint8_t>(256, 50))),
              StatusIs(kInvalid, HasSubstr("a.img: a JPEG file of CMYK")));
}

TEST(JpegTest, RefusesDamage) {
  std::vector<uint8_t> values(64 * 64);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint8_t>(i * i % 251);
  }
  const std::string file = JpegFile(64, 64, 1, values);
  ASSERT_OK(Decode(file));
  for (const size_t share : {1, 2, 3}) {
    EXPECT_THAT(Decode(file.substr(0, file.size() * share / 4)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a.img: not a whole JPEG file")))
        << share;
  }
}

TEST(JpegTest, RefusesMorePixelsThanItDecodes) {
  std::string file = JpegFile(8, 8, 1, std::vector<uint8_t>(64, 1));
  const size_t frame = file.find("\xff\xc0");  // length, depth, height, width
  std::memcpy(file.data() + frame + 5, "\x7f\xff\x7f\xff", 4);
  EXPECT_THAT(Decode(file), StatusIs(kInvalid, HasSubstr("32767 x 32767 pixels are more than")));
}

TEST(ImageDecoderTest, RefusesOtherFormats) {
  EXPECT_THAT(Decode("GIF89a"), StatusIs(kInvalid, HasSubstr("neither PNG's nor JPEG's")));
  EXPECT_THAT(Decode(""), StatusIs(kInvalid, HasSubstr("a.img: the file is empty")));
}

std::vector<uint8_t> Fit(const Image& image, uint32_t channels, uint32_t height, uint32_t width) {
  std::vector<uint8_t> out(size_t{channels} * height * width);
  FitImage(image, channels, height, width, out);
  return out;
}

TEST(ImageFitTest, KeepsAnImageOfItsSize) {
  const Image image{2, 2, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
  EXPECT_THAT(Fit(image, 3, 2, 2), ElementsAre(1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12));
}

TEST(ImageFitTest, AveragesAreas) {
  // Halves: (10 + 20 + 50 + 61) / 4 = 35.25, (30 + 40 + 70 + 80) / 4 = 55.
  EXPECT_THAT(Fit({4, 2, 1, {10, 20, 30, 40, 50, 61, 70, 80}}, 1, 1, 2), ElementsAre(35, 55));
  // Two of three: each covers one and a half.
  // (10 * 1 + 20 * 0.5) / 1.5 = 13.33, (20 * 0.5 + 40) / 1.5 = 33.33.
  EXPECT_THAT(Fit({3, 2, 1, {10, 20, 40, 10, 20, 40}}, 1, 2, 3),
              ElementsAre(10, 20, 40, 10, 20, 40));
  EXPECT_THAT(Fit({3, 3, 1, {10, 20, 40, 10, 20, 40, 10, 20, 40}}, 1, 2, 2),
              ElementsAre(13, 33, 13, 33));
  // Larger: pixels are parts of one pixel, the middle one of two halves: 15.
  EXPECT_THAT(Fit({2, 2, 1, {10, 20, 10, 20}}, 1, 3, 3),
              ElementsAre(10, 15, 20, 10, 15, 20, 10, 15, 20));
}

TEST(ImageFitTest, CutsTheMiddle) {
  EXPECT_THAT(Fit({5, 1, 1, {1, 2, 3, 4, 5}}, 1, 1, 3), ElementsAre(2, 3, 4));
  EXPECT_THAT(Fit({1, 4, 1, {1, 2, 3, 4}}, 1, 2, 1), ElementsAre(2, 3));
  // 6 x 2 to a square: the two columns in the middle, averaged: (3 + 4 + 9 + 10) / 4 = 6.5.
  EXPECT_THAT(Fit({6, 2, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}, 1, 1, 1), ElementsAre(7));
}

TEST(ImageFitTest, TurnsColours) {
  // 0.299 * 100 + 0.587 * 50 + 0.114 * 200 = 82.05
  EXPECT_THAT(Fit({1, 1, 3, {100, 50, 200}}, 1, 1, 1), ElementsAre(82));
  EXPECT_THAT(Fit({1, 1, 1, {9}}, 3, 1, 1), ElementsAre(9, 9, 9));
}

}  // namespace
}  // namespace monsoon
