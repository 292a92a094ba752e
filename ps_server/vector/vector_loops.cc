#include "ps_server/vector/vector_loops.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

constexpr size_t kLanes = 16;

void Scale(size_t n, double factor, const float* __restrict x, float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(factor * static_cast<double>(x[i]));
  }
}

void Axpy(size_t n, double factor, const float* __restrict x, const float* __restrict y,
          float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(factor * static_cast<double>(x[i]) + static_cast<double>(y[i]));
  }
}

void Multiply(size_t n, const float* __restrict x, const float* __restrict y,
              float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = x[i] * y[i];  // the product of two floats is exact in double
  }
}

void AddProducts(size_t n, const float* x, const float* y, double* lanes) {
  double sum[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum[lane] = lanes[lane];
  }
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
    }
  }
  for (size_t lane = 0; i < n; ++i, ++lane) {
    sum[lane] += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    lanes[lane] = sum[lane];
  }
}

void AddScaled(size_t n, double factor, const float* __restrict x, double* __restrict sum) {
  for (size_t i = 0; i < n; ++i) {
    sum[i] += factor * static_cast<double>(x[i]);
  }
}

void Round(size_t n, const double* __restrict x, float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<float>(x[i]);
  }
}

}  // namespace

const VectorLoops kVectorLoops = {Scale, Axpy, Multiply, AddProducts, AddScaled, Round};

}  // namespace monsoon::SIMD_NAMESPACE
