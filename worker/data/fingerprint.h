// What goes into a data set's fingerprint. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"

namespace monsoon {

// The length and the CRC-32 of bytes that come in pieces.
class ContentHash {
 public:
  void Append(std::span<const uint8_t> content);
  uint64_t bytes() const { return bytes_; }
  uint64_t crc() const { return crc_; }

 private:
  uint64_t bytes_ = 0;
  uint64_t crc_ = 0;
};

// FNV-1a of 64 bits over the fields in the order they are added.
class Fingerprinter {
 public:
  void Add(uint64_t value);
  void Add(double value);
  void Add(absl::string_view text);
  void Add(const ContentHash& content);

  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace monsoon
