#include "worker/data/fingerprint.h"

#include <zlib.h>

#include <bit>

namespace monsoon {

void ContentHash::Append(std::span<const uint8_t> content) {
  if (!content.empty()) {
    crc_ = crc32_z(crc_, content.data(), content.size());
    bytes_ += content.size();
  }
}

void Fingerprinter::Add(uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash_ = (hash_ ^ ((value >> shift) & 0xff)) * 0x100000001b3;
  }
}

void Fingerprinter::Add(double value) { Add(std::bit_cast<uint64_t>(value)); }

void Fingerprinter::Add(absl::string_view text) {
  Add(static_cast<uint64_t>(text.size()));
  for (const char c : text) {
    Add(static_cast<uint64_t>(static_cast<uint8_t>(c)));
  }
}

void Fingerprinter::Add(const ContentHash& content) {
  Add(content.bytes());
  Add(content.crc());
}

}  // namespace monsoon
