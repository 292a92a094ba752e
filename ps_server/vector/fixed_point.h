// Fixed-point sums of float32 vectors: each value becomes an integer number of
// quanta, so that a sum has the same bits in any order.
//
// A quantum is a power of two and belongs to one line: 16 floats, 64 bytes,
// never of two tensors. With C contributions, m the exponent of the power of
// two at or above the line's expected largest |value|, and H = kHeadroomBits,
//
//   b = ValueBits(C) = min(50, 62 - ceil(log2 C))
//   quantum = 2^(m + H - b)        largest value that fits = 2^(m + H)
//
// so C values that fit are at most C * 2^b <= 2^62 quanta: the sum cannot
// overflow an int64. A value of the expected size has at least b - H - 1 bits:
// 39 for up to 2^12 contributions, 37 for 2^14, 31 for 2^20. The limit of 50
// lets a value be rounded by one addition of doubles.
//
// Pure. Rounding is to the nearest quantum, ties to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace monsoon {

inline constexpr size_t kLineFloats = 16;
inline constexpr int kHeadroomBits = 10;

// b for 1 <= contributions <= 2^20.
int ValueBits(uint32_t contributions);

// Exponent of the quantum; `maximum` is finite and above 0.
int16_t QuantumExponent(float maximum, int value_bits);

// Raises maxima[l] to the largest |value| of line l. The last line may be
// shorter. All values are finite.
void RaiseMaxima(std::span<const float> values, std::span<float> maxima);

// Does the same, and adds each line whose values fit its quantum to `sum`
// (values.size() integers). False if some line did not fit; it is left out.
bool AddFixedPoint(std::span<const float> values, std::span<const int16_t> exponents,
                   int value_bits, std::span<float> maxima, std::span<int64_t> sum);

// out = factor * sum, in double and rounded once; with `shift_vector` (else
// empty) out = factor * sum + shift * shift_vector.
void RoundFixedPoint(std::span<const int64_t> sum, std::span<const int16_t> exponents,
                     double factor, double shift, std::span<const float> shift_vector,
                     std::span<float> out);

}  // namespace monsoon
