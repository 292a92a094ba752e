// ByteStore: the bytes that samples are made of, in memory or in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"

namespace monsoon {

// Thread safety: immutable once made; all calls may run at once.
class ByteStore {
 public:
  virtual ~ByteStore() = default;

  virtual uint64_t size() const = 0;

  // The bytes [begin, begin + size), of which all are there; valid while `scratch` is not changed.
  // DataLoss names the file and the place that cannot be read.
  virtual absl::StatusOr<const uint8_t*> Get(uint64_t begin, size_t size,
                                             std::vector<uint8_t>* scratch) const = 0;

  // Get will be asked for these soon.
  virtual void Expect(uint64_t begin, size_t size) const = 0;
};

class MemoryBytes : public ByteStore {
 public:
  explicit MemoryBytes(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}

  uint64_t size() const override { return bytes_.size(); }
  absl::StatusOr<const uint8_t*> Get(uint64_t begin, size_t size,
                                     std::vector<uint8_t>*) const override {
    CHECK_LE(begin + size, bytes_.size());
    return bytes_.data() + begin;
  }
  void Expect(uint64_t begin, size_t size) const override {
    constexpr size_t kLine = 64;
    for (size_t i = 0; i < size; i += kLine) {
      __builtin_prefetch(bytes_.data() + begin + i, 0, 2);
    }
  }

 private:
  const std::vector<uint8_t> bytes_;
};

}  // namespace monsoon
