// The numbers of the zip format (PKWARE APPNOTE 6.3) that .npz files use.
// Everything is little-endian.
#pragma once

#include <cstdint>
#include <string>

namespace monsoon::zip {

inline constexpr uint32_t kLocalSignature = 0x04034b50;
inline constexpr uint32_t kDirectorySignature = 0x02014b50;
inline constexpr uint32_t kEndSignature = 0x06054b50;
inline constexpr uint32_t kEnd64Signature = 0x06064b50;
inline constexpr uint32_t kLocator64Signature = 0x07064b50;

// Bytes before the name, or in all where there is none.
inline constexpr uint64_t kLocalBytes = 30;
inline constexpr uint64_t kDirectoryBytes = 46;
inline constexpr uint64_t kEndBytes = 22;
inline constexpr uint64_t kEnd64Bytes = 56;
inline constexpr uint64_t kLocator64Bytes = 20;

inline constexpr uint16_t kZip64Extra = 1;
inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;
inline constexpr uint16_t kEncryptedFlag = 1;
inline constexpr uint64_t kVersion = 20;
inline constexpr uint64_t kVersionZip64 = 45;
// 1980-01-01, so that equal arrays give equal files.
inline constexpr uint64_t kDosDate = 0x0021;

// In a 16-bit or 32-bit field: look into the zip64 record.
inline constexpr uint64_t kMax16 = 0xffff;
inline constexpr uint64_t kMax32 = 0xffffffff;

inline void AppendBytes(std::string* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}
inline void Append16(std::string* out, uint64_t value) { AppendBytes(out, value, 2); }
inline void Append32(std::string* out, uint64_t value) { AppendBytes(out, value, 4); }
inline void Append64(std::string* out, uint64_t value) { AppendBytes(out, value, 8); }

inline uint64_t ReadBytes(const uint8_t* at, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) {
    value |= static_cast<uint64_t>(at[i]) << (8 * i);
  }
  return value;
}
inline uint16_t Read16(const uint8_t* at) { return static_cast<uint16_t>(ReadBytes(at, 2)); }
inline uint32_t Read32(const uint8_t* at) { return static_cast<uint32_t>(ReadBytes(at, 4)); }
inline uint64_t Read64(const uint8_t* at) { return ReadBytes(at, 8); }

}  // namespace monsoon::zip
