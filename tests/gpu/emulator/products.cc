// Compiled with -O3: most of the emulator's time is spent here.
#include "tests/gpu/emulator/products.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "tests/gpu/emulator/arithmetic.h"
#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/report.h"
#include "tests/gpu/emulator/settings.h"
#include "tests/gpu/emulator/stats.h"

namespace monsoon::emulator {
namespace {

constexpr int kLanes = 8;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));

int64_t SizeOf(FactorType type) {
  return type == FactorType::kFloat16 || type == FactorType::kBfloat16 ? 2 : 4;
}

// A float as tensor cores read it: 10 bits of mantissa.
float RoundToTf32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7F800000) == 0x7F800000) {
    return value;
  }
  switch (TheSettings().tf32) {
    case Tf32::kNearest:
      bits += 0xFFF + (bits >> 13 & 1);
      break;
    case Tf32::kAway:
      bits += 0x1000;
      break;
    case Tf32::kTruncate:
      break;
  }
  return std::bit_cast<float>(bits & ~uint32_t{0x1FFF});
}

float ReadFactor(FactorType type, const uint8_t* from) {
  switch (type) {
    case FactorType::kFloat16: {
      _Float16 half;
      std::memcpy(&half, from, sizeof half);
      return static_cast<float>(half);
    }
    case FactorType::kBfloat16: {
      Bfloat16 half;
      std::memcpy(&half, from, sizeof half);
      return FromBfloat16(half);
    }
    case FactorType::kFloat32:
    case FactorType::kTf32:
      break;
  }
  float value = 0;
  std::memcpy(&value, from, sizeof value);
  return type == FactorType::kTf32 ? RoundToTf32(value) : value;
}

// A matrix as rows of `length` values, padded with zeros to whole Lanes.
class Rows {
 public:
  // Element (row, i) lies at row * row_step + i * step.
  Rows(FactorType type, uint64_t address, int64_t rows, int64_t length, int64_t row_step,
       int64_t step)
      : lanes_((length + kLanes - 1) / kLanes), values_(static_cast<size_t>(rows * lanes_)) {
    const uint8_t* const from = static_cast<const uint8_t*>(ToHost(address));
    for (int64_t row = 0; row < rows; ++row) {
      float* const to = reinterpret_cast<float*>(&values_[static_cast<size_t>(row * lanes_)]);
      for (int64_t i = 0; i < length; ++i) {
        to[i] = ReadFactor(type, from + (row * row_step + i * step) * SizeOf(type));
      }
    }
  }

  const Lanes* row(int64_t index) const { return &values_[static_cast<size_t>(index * lanes_)]; }
  int64_t lanes() const { return lanes_; }

 private:
  int64_t lanes_;
  std::vector<Lanes> values_;
};

float Sum(const Lanes& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void Compute(const Product& p) {
  const Rows a(p.type, p.a, p.m, p.k, p.transpose_a ? p.lda : 1, p.transpose_a ? 1 : p.lda);
  const Rows b(p.type, p.b, p.n, p.k, p.transpose_b ? 1 : p.ldb, p.transpose_b ? p.ldb : 1);
  float* const c = static_cast<float*>(ToHost(p.c));
  const float* const bias = p.bias == 0 ? nullptr : static_cast<const float*>(ToHost(p.bias));
  constexpr int kColumns = 4;  // of C at a time, so that each row of A is loaded once for them
  for (int64_t j = 0; j < p.n; j += kColumns) {
    const Lanes* columns[kColumns];
    for (int64_t u = 0; u < kColumns; ++u) {
      columns[u] = b.row(std::min<int64_t>(j + u, p.n - 1));
    }
    for (int64_t i = 0; i < p.m; ++i) {
      const Lanes* const row = a.row(i);
      Lanes sums[kColumns] = {};
      for (int64_t l = 0; l < a.lanes(); ++l) {
        for (int u = 0; u < kColumns; ++u) {
          sums[u] += row[l] * columns[u][l];
        }
      }
      for (int64_t u = 0; u < kColumns && j + u < p.n; ++u) {
        float& to = c[(j + u) * p.ldc + i];
        const float sum = p.alpha * Sum(sums[u]);
        to = p.beta == 0 ? sum : sum + p.beta * to;
        to = bias == nullptr ? to : to + bias[i];
      }
    }
  }
}

void NoteMatrix(uint64_t address, int64_t rows, int64_t columns, int64_t leading, int64_t size,
                bool write, uint32_t operation, const char* what) {
  if (rows == 0 || columns == 0) {
    return;
  }
  const uint64_t bytes = static_cast<uint64_t>(((columns - 1) * leading + rows) * size);
  Allocation* const allocation = Find(address, bytes);
  if (allocation == nullptr) {
    Report("fault", OperationName(operation) +
                        Text(": %s, %lld x %lld with leading dimension "
                             "%lld, reaches out of ",
                             what, static_cast<long long>(rows), static_cast<long long>(columns),
                             static_cast<long long>(leading)) +
                        Describe(address));
    throw DeviceFault{700};
  }
  const Access access{operation, kManyThreads, what};
  for (int64_t column = 0; column < columns; ++column) {
    const uint64_t at = address + static_cast<uint64_t>(column * leading * size);
    const uint64_t length = static_cast<uint64_t>(rows * size);
    if (write) {
      NoteWrite(*allocation, at, length, access, nullptr);
    } else {
      NoteRead(*allocation, at, length, access);
    }
  }
}

void RunOne(const Product& p, uint32_t operation) {
  const int64_t size = SizeOf(p.type);
  NoteMatrix(p.a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, size, false,
             operation, "a product's A");
  NoteMatrix(p.b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, size, false,
             operation, "a product's B");
  if (p.beta != 0) {
    NoteMatrix(p.c, p.m, p.n, p.ldc, 4, false, operation, "a product's C");
  }
  if (p.bias != 0) {
    NoteMatrix(p.bias, p.m, 1, p.m, 4, false, operation, "a product's bias");
  }
  NoteMatrix(p.c, p.m, p.n, p.ldc, 4, true, operation, "a product's C");
  Compute(p);
}

}  // namespace

bool IsValid(const Product& p) {
  const bool valid = p.m >= 0 && p.n >= 0 && p.k >= 0 && p.count >= 0 &&
                     p.lda >= std::max(1, p.transpose_a ? p.k : p.m) &&
                     p.ldb >= std::max(1, p.transpose_b ? p.n : p.k) && p.ldc >= std::max(1, p.m);
  if (!valid) {
    Report("misuse", Text("cuBLAS refuses a product of m %d, n %d, k %d with leading dimensions "
                          "%d, %d, %d",
                          p.m, p.n, p.k, p.lda, p.ldb, p.ldc));
  }
  return valid;
}

void EnqueueProduct(Stream& stream, const Product& product) {
  Enqueue(stream, Text("product %d x %d x %d", product.m, product.n, product.k), [=]() -> Run {
    return [=](uint32_t operation) {
      Product one = product;
      for (int i = 0; i < product.count; ++i) {
        const int64_t size = SizeOf(product.type);
        one.a = product.a + static_cast<uint64_t>(i * product.stride_a * size);
        one.b = product.b + static_cast<uint64_t>(i * product.stride_b * size);
        one.c = product.c + static_cast<uint64_t>(i * product.stride_c * 4);
        RunOne(one, operation);
      }
      ++TheStats().products;
      TheStats().product_flops +=
          uint64_t{2} * static_cast<uint64_t>(product.m) * static_cast<uint64_t>(product.n) *
          static_cast<uint64_t>(product.k) * static_cast<uint64_t>(product.count);
    };
  });
}

}  // namespace monsoon::emulator
