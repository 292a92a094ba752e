// Kernels of convolution and pooling against their definitions, over odd shapes; in the
// form of kernels_test.cc.
#include "worker/backend/cuda/kernels/image_kernels.h"

#include <cstdint>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "worker/backend/cuda/kernels/kernel_test.h"

namespace monsoon::cuda {
namespace {

using testing::DeviceArray;
using testing::ExpectNear;
using testing::Random;

class ImageKernelTest : public testing::KernelTest {};

// Channels, extents, filters, window, stride, padding: odd ones, a window larger than the
// image, outputs that see padding alone, a window of one, and many channels.
const ImageShape kShapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0},   {1, 5, 4, 2, 3, 2, 3, 1, 0},     {3, 11, 9, 7, 5, 4, 3, 2, 0},
    {3, 11, 9, 5, 6, 5, 3, 2, 1},  {2, 7, 7, 3, 9, 9, 3, 1, 2},     {4, 6, 5, 2, 1, 1, 5, 3, 0},
    {2, 10, 13, 3, 4, 5, 2, 3, 1}, {20, 13, 13, 50, 9, 9, 5, 1, 0}, {3, 8, 6, 4, 4, 3, 5, 2, 2},
    {2, 3, 2, 3, 3, 2, 5, 1, 2},   {2, 3, 4, 2, 7, 8, 1, 1, 2},     {5, 6, 7, 9, 6, 7, 1, 1, 0},
    {2, 9, 9, 3, 3, 3, 1, 4, 0},   {70, 4, 5, 66, 4, 5, 3, 1, 1},   {1, 12, 12, 2, 3, 3, 7, 4, 2},
};

// f(column row, sample, position, input index) for each entry inside the image.
void ForEachTap(const ImageShape& s, uint32_t group,
                const std::function<void(size_t, size_t, size_t, size_t)>& f) {
  for (int64_t n = 0; n < group; ++n)
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t dy = 0; dy < s.window; ++dy)
        for (int64_t dx = 0; dx < s.window; ++dx)
          for (int64_t y = 0; y < s.out_height; ++y)
            for (int64_t x = 0; x < s.out_width; ++x) {
              const int64_t iy = y * s.stride + dy - s.padding;
              const int64_t ix = x * s.stride + dx - s.padding;
              if (iy >= 0 && iy < s.height && ix >= 0 && ix < s.width) {
                f((c * s.window + dy) * s.window + dx, n, y * s.out_width + x,
                  ((n * s.channels + c) * s.height + iy) * s.width + ix);
              }
            }
}

TEST_F(ImageKernelTest, ColumnsUnfoldAndFold) {
  for (const ImageShape& shape : kShapes) {
    for (const uint32_t group : {1u, 3u}) {
      for (const ColumnsLayout& layout :
           {ColumnsLayout::BySample(shape), ColumnsLayout::OfGroup(shape, group)}) {
        const size_t entries = size_t{shape.patch()} * group * shape.out_area();
        const std::vector<float> image = Random(group * shape.in_size(), shape.window);
        const std::vector<float> diff = Random(entries, 9);
        std::vector<double> columns(entries), folded(image.size());
        ForEachTap(shape, group, [&](size_t row, size_t n, size_t position, size_t input) {
          const size_t at = row * layout.row_stride + n * layout.sample_stride + position;
          columns[at] = image[input];
          folded[input] += diff[at];
        });
        const auto device = OnDevice(image);
        const auto floats = Poisoned(entries);
        const DeviceArray<uint16_t> halves(*stream_, entries);
        UnfoldColumns(
            *stream_,
            Unfolding<float>{shape, layout, HalfType::kFloat16, device.data(), floats.data()},
            group);
        UnfoldColumns(
            *stream_,
            Unfolding<uint16_t>{shape, layout, HalfType::kFloat16, device.data(), halves.data()},
            group);
        SCOPED_TRACE(::testing::Message() << "shape " << &shape - kShapes << " group " << group);
        ExpectNear(floats.Get(), columns, 0);
        const std::vector<uint16_t> half = halves.Get();
        for (size_t i = 0; i < entries; ++i) {
          ASSERT_EQ(half[i], ToFloat16(static_cast<float>(columns[i])));
        }
        const auto in_diff = Poisoned(image.size());
        const auto device_diff = OnDevice(diff);
        FoldColumns(*stream_, Col2im(shape, layout, device_diff.data(), in_diff.data()),
                    image.size());
        ExpectNear(in_diff.Get(), folded, 1e-5);
      }
    }
  }
}

TEST_F(ImageKernelTest, RefusesMoreColumnsThanTheirIndicesHold) {
  const ImageShape shape = {1, 4096, 4096, 1, 4092, 4092, 5, 1, 0};
  const auto array = Poisoned(1);
  UnfoldColumns(*stream_,
                Unfolding<float>{shape, ColumnsLayout::BySample(shape), HalfType::kFloat16,
                                 array.data(), array.data()},
                6);
  EXPECT_EQ(errors_.kind(), ErrorLog::Kind::kOutOfMemory);
  EXPECT_NE(errors_.message().find("im2col: 2511669600 elements"), std::string::npos)
      << errors_.message();
}

TEST_F(ImageKernelTest, ImagesToRowsAndBack) {
  for (const ImageShape& shape : kShapes) {
    constexpr uint32_t kGroup = 3;
    const uint32_t area = shape.out_area();
    const uint32_t positions = kGroup * area;
    const std::vector<float> images = Random(kGroup * shape.out_size(), 4);
    const std::vector<float> bias = Random(shape.out_channels, 5);
    std::vector<double> rows(images.size()), biased(images.size());
    for (uint32_t n = 0; n < kGroup; ++n)
      for (uint32_t k = 0; k < shape.out_channels; ++k)
        for (uint32_t p = 0; p < area; ++p) {
          const size_t i = (n * shape.out_channels + k) * area + p;
          rows[k * positions + n * area + p] = images[i];
          biased[i] = images[i] + bias[k];
        }
    const auto device = OnDevice(images);
    const auto device_bias = OnDevice(bias);
    const auto floats = Poisoned(rows.size());
    const DeviceArray<uint16_t> halves(*stream_, rows.size());
    ImagesToRows(
        *stream_,
        FromImages<float>(shape, kGroup, HalfType::kBfloat16, device.data(), floats.data()),
        images.size());
    ImagesToRows(
        *stream_,
        FromImages<uint16_t>(shape, kGroup, HalfType::kBfloat16, device.data(), halves.data()),
        images.size());
    ExpectNear(floats.Get(), rows, 0);
    EXPECT_EQ(halves.Get().back(), ToBfloat16(images.back()));
    // Back again, with and without a bias, and a bias where they lie.
    const auto back = Poisoned(images.size());
    ProductToImages(*stream_, ToImages(shape, kGroup, floats.data(), nullptr, back.data()),
                    images.size());
    EXPECT_EQ(back.Get(), images);
    ProductToImages(*stream_,
                    ToImages(shape, kGroup, floats.data(), device_bias.data(), back.data()),
                    images.size());
    ExpectNear(back.Get(), biased, 1e-7);
    AddBiasToChannels(*stream_, AddChannelBias(shape, device_bias.data(), device.data()),
                      images.size());
    EXPECT_EQ(device.Get(), back.Get());
  }
}

}  // namespace
}  // namespace monsoon::cuda
