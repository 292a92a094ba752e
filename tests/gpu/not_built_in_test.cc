#include "gtest/gtest.h"

namespace monsoon {
namespace {

TEST(CudaTest, IsNotBuiltIn) {
  GTEST_SKIP() << "CUDA is not built in: the CUDA toolkit was not found or MONSOON_CUDA=off";
}

}  // namespace
}  // namespace monsoon
