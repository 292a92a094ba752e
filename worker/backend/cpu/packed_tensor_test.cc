#include "worker/backend/cpu/packed_tensor.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon::cpu {
namespace {

using dnnl::memory;

std::vector<float> Iota(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(PackedTensorTest, PlainFormatIsNotCopied) {
  Context context(1, true);
  PackedTensor tensor(context, {3, 5}, MatrixDesc(3, 5));
  std::vector<float> plain = Iota(15);
  tensor.Pack(plain.data());
  EXPECT_EQ(tensor.packed().get_data_handle(), plain.data());
}

TEST(PackedTensorTest, PaddedBlockedFormatComesBackAndIsZeroBetween) {
  Context context(1, true);
  const memory::desc blocked({32, 16, 3, 3}, memory::data_type::f32,
                             memory::format_tag::OIhw16i16o);
  PackedTensor tensor(context, {20, 7, 3, 3}, blocked);
  const std::vector<float> plain = Iota(20 * 7 * 9);
  tensor.Pack(plain.data());
  const float* packed = static_cast<const float*>(tensor.packed().get_data_handle());
  const double sum = std::accumulate(plain.begin(), plain.end(), 0.0);
  EXPECT_EQ(std::accumulate(packed, packed + 32 * 16 * 9, 0.0), sum);
  // O = 0, I = 1 lies one row of 16 output channels further.
  EXPECT_EQ(packed[16], plain[9]);

  std::vector<float> back(plain.size(), -1.0f);
  tensor.BindOutput(back.data());
  tensor.Unpack(back.data());
  EXPECT_EQ(back, plain);
}

TEST(PackedTensorTest, VectorsArePaddedToo) {
  Context context(1, true);
  const memory::desc desc({16}, memory::data_type::f32, memory::format_tag::a);
  PackedTensor tensor(context, {5}, desc);
  const std::vector<float> plain = Iota(5);
  tensor.Pack(plain.data());
  const float* packed = static_cast<const float*>(tensor.packed().get_data_handle());
  EXPECT_EQ(std::vector<float>(packed, packed + 7),
            (std::vector<float>{1, 2, 3, 4, 5, 0, 0}));
}

}  // namespace
}  // namespace monsoon::cpu
