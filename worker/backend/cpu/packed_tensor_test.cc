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
  PackedTensor tensor(context, MatrixDesc(3, Extent{5}));
  std::vector<float> plain = Iota(15);
  tensor.Pack(plain.data());
  EXPECT_EQ(tensor.packed().get_data_handle(), plain.data());
}

TEST(PackedTensorTest, BlockedFormatComesBackAndIsZeroWhereItPads) {
  Context context(1, true);
  // 20 x 7 in blocks of 16 x 16.
  const memory::desc blocked({20, 7, 3, 3}, memory::data_type::f32, memory::format_tag::OIhw16i16o);
  PackedTensor tensor(context, blocked);
  const std::vector<float> plain = Iota(20 * 7 * 9);
  tensor.Pack(plain.data());
  const float* packed = static_cast<const float*>(tensor.packed().get_data_handle());
  EXPECT_EQ(blocked.get_size(), 32 * 16 * 9 * sizeof(float));
  const double sum = std::accumulate(plain.begin(), plain.end(), 0.0);
  EXPECT_EQ(std::accumulate(packed, packed + 32 * 16 * 9, 0.0), sum);
  // O = 0, I = 1 lies one row of 16 output channels further.
  EXPECT_EQ(packed[16], plain[9]);

  std::vector<float> back(plain.size(), -1.0f);
  tensor.BindOutput(back.data());
  tensor.Unpack(back.data());
  EXPECT_EQ(back, plain);
}

TEST(PackedTensorTest, GivenMemoryIsFilledAlsoInThePlainFormat) {
  Context context(1, true);
  const memory target = context.Allocate(MatrixDesc(2, Extent{3}));
  PackedTensor tensor(context, target);
  const std::vector<float> plain = Iota(6);
  tensor.Pack(plain.data());
  const float* values = static_cast<const float*>(target.get_data_handle());
  EXPECT_EQ(std::vector<float>(values, values + 6), plain);
}

}  // namespace
}  // namespace monsoon::cpu
