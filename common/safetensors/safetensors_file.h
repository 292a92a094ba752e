// Files of tensors in safetensors form: 8 bytes header length (little-endian), a
// JSON header, then the tensors' bytes without gaps, in the header's order
// (https://github.com/huggingface/safetensors, format 0.4). Little-endian, C order.
//
// Thread safety: none, but for a reader's const members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/storage/storage.h"

namespace monsoon {

enum class TensorType { kF32, kU8, kU64 };
uint64_t BytesOf(TensorType type);    // of one element
const char* NameOf(TensorType type);  // "F32"

struct TensorSpec {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<uint64_t> shape;
  // Of all elements. The caller knows that it does not overflow.
  uint64_t bytes() const;
};

// Writes the tensors of one file in any order of calls, each tensor's bytes in order
// and without gaps. The data begin at a multiple of 64 bytes: the header is filled up
// with blanks, as the format allows.
class SafetensorsWriter {
 public:
  // `tensors` in the order of the file, names different. Of the last `late` ones, of
  // one dimension, the sizes may still change, by SetSize, before anything is written
  // to them. InvalidArgument for names that a reader would refuse.
  static absl::StatusOr<SafetensorsWriter> Create(Storage* storage, const std::string& path,
                                                  std::vector<TensorSpec> tensors,
                                                  std::map<std::string, std::string> metadata,
                                                  size_t late = 0);
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The tensor has one dimension, of `size` elements; those before it have their size.
  absl::Status SetSize(size_t tensor, uint64_t size);
  // The next bytes of `tensor`.
  absl::Status Append(size_t tensor, std::span<const std::byte> bytes);
  // XXH3 (64 bits) of the tensor's bytes, all of which were appended.
  uint64_t Checksum(size_t tensor) const;
  // What the file begins with: length and header, as it will be written. All sizes
  // are known.
  std::string Head() const;
  // Writes the head and syncs the file; every tensor is whole. Returns its length.
  absl::StatusOr<uint64_t> Finish();

 private:
  class Impl;
  explicit SafetensorsWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads a file that may come from anybody: every offset, length and type is checked
// against the file. Tensors of types that TensorType does not have are listed and
// cannot be read.
class SafetensorsReader {
 public:
  struct Tensor {
    std::string name;
    std::string type;  // as the header has it
    std::vector<uint64_t> shape;
    uint64_t offset = 0;  // in the file
    uint64_t bytes = 0;
  };

  // InvalidArgument names the path and what is wrong; NotFound.
  static absl::StatusOr<SafetensorsReader> Open(const Storage* storage, const std::string& path);
  SafetensorsReader(SafetensorsReader&&) noexcept;
  ~SafetensorsReader();

  const std::string& path() const;
  const std::vector<Tensor>& tensors() const;  // by offset
  const Tensor* Find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  // What the file begins with, up to the first tensor.
  const std::string& head() const;
  uint64_t file_bytes() const;
  // out.size() bytes of the tensor, from byte `begin` of it; within it.
  absl::Status Read(const Tensor& tensor, uint64_t begin, std::span<std::byte> out) const;

 private:
  class Impl;
  explicit SafetensorsReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace monsoon
