// JoinedArray: one array of NumPy files, in one file or over those of a pattern, whose rows (first
// dimension) follow one another in the order of the files' names. Headers only; values are
// streamed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/access/data_access.h"
#include "common/npz/npy_header.h"

namespace monsoon {

struct JoinedArray {
  struct Part {
    std::string path;
    uint64_t data_offset = 0;  // of a .npy file: bytes before its elements
    uint64_t rows = 0;
  };

  // For messages: the path or pattern as given, and the member of an archive.
  std::string name;
  std::string member;  // of .npz archives, without ".npy"; empty: .npy files
  NpyType type = NpyType::kUint8;
  std::vector<uint64_t> shape;  // of all parts: [rows, ...]
  std::vector<Part> parts;      // at least one
  bool compressed = false;      // a part is a gzip file

  uint64_t rows() const { return shape[0]; }
  // The dimensions behind the first.
  std::vector<uint64_t> row_shape() const { return {shape.begin() + 1, shape.end()}; }
  uint64_t row_elements() const;
  uint64_t row_bytes() const { return row_elements() * NpyTypeBytes(type); }
  // "float32 [1000, 28, 28]".
  std::string Text() const;
  // For messages, row `row` as a sample: "sample 12", or "sample 1012 (sample 12 of b.npy)" where
  // a pattern has several files.
  std::string SampleText(uint64_t row) const;
};

// InvalidArgument, naming the file and the array, where a header is not one, an array has no
// dimension, or files differ in type or in the shape of a row (both are told).
absl::StatusOr<JoinedArray> OpenNpyArray(const std::string& pattern, const DataAccess& access);
absl::StatusOr<JoinedArray> OpenNpzArray(const std::string& pattern, const std::string& member,
                                         const DataAccess& access);

// Calls `look` with the elements' bytes, in order, whole elements in each piece. Its error ends it.
// DataLoss, naming the file, where one is cut short or damaged.
absl::Status StreamArray(const JoinedArray& array, const DataRoots& roots,
                         absl::FunctionRef<absl::Status(std::span<const uint8_t>)> look);

// Element `i` of `bytes`. Integers of 64 bits lose what a double cannot hold.
double ElementAt(NpyType type, std::span<const uint8_t> bytes, size_t i);

}  // namespace monsoon
