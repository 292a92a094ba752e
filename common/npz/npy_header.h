// The header of a NumPy .npy file, versions 1 to 3 (NEP 1): the magic
// "\x93NUMPY", the version, the length, and a Python dictionary with the keys
// descr, fortran_order and shape, padded with spaces.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace monsoon {

inline constexpr size_t kNpyMaxHeaderBytes = 1 << 16;

enum class NpyType {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat32,
  kFloat64,
};

// Bytes of one element.
uint64_t NpyTypeBytes(NpyType type);
// As NumPy writes it: "float32".
const char* NpyTypeName(NpyType type);
bool IsIntegerNpyType(NpyType type);
bool IsSignedNpyType(NpyType type);

struct NpyHeader {
  NpyType type = NpyType::kUint8;
  std::vector<uint64_t> shape;  // C order; empty for a scalar
  uint64_t data_offset = 0;     // bytes before the first element
  uint64_t data_bytes = 0;      // of all elements, little-endian
};

// Whether a file begins as .npy files do.
bool IsNpy(std::span<const uint8_t> bytes);

// Parses the first bytes of a file. Refuses big-endian elements, Fortran order
// (of two dimensions or more) and types outside NpyType; errors name `path`
// and what was found.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::span<const uint8_t> bytes, const std::string& path);

// What a .npy file of float32 of that shape (C order, little-endian) begins with: its
// elements follow at a multiple of 64 bytes, as NumPy writes it.
std::string NpyFloatHead(std::span<const uint64_t> shape);

}  // namespace monsoon
