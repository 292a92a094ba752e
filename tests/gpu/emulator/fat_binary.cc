#include "tests/gpu/emulator/fat_binary.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace monsoon::emulator {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint16_t kPtx = 1;
constexpr uint16_t kElf = 2;

struct Wrapper {
  uint32_t magic;
  uint32_t version;
  const uint8_t* data;
  const void* unused;
};

struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t header_bytes;
  uint64_t bytes;  // of all entries
};

// Before each PTX or ELF; what follows is not of interest.
struct EntryHeader {
  uint16_t kind;
  uint16_t version;
  uint32_t header_bytes;
  uint64_t bytes;  // of the contents
  uint32_t unused[3];
  uint32_t capability;
};

[[noreturn]] void Refuse() {
  std::fprintf(stderr, "CUDA emulator: a fat binary of unknown form\n");
  std::_Exit(2);
}

template <typename T>
T Read(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

FatBinary::FatBinary(const void* wrapper) {
  const auto outer = Read<Wrapper>(static_cast<const uint8_t*>(wrapper));
  if (outer.magic != kWrapperMagic) {
    Refuse();
  }
  const auto header = Read<Header>(outer.data);
  if (header.magic != kMagic) {
    Refuse();
  }
  const uint8_t* at = outer.data + header.header_bytes;
  const uint8_t* const end = at + header.bytes;
  while (at < end) {
    const auto entry = Read<EntryHeader>(at);
    if ((entry.kind != kPtx && entry.kind != kElf) || entry.capability < 50 ||
        entry.capability > 999) {
      Refuse();
    }
    code_.push_back({entry.kind == kPtx, static_cast<int>(entry.capability)});
    at += entry.header_bytes + entry.bytes;
  }
}

bool FatBinary::HasCodeFor(int capability) const {
  for (const Code& code : code_) {
    if (code.is_ptx ? code.capability <= capability
                    : code.capability / 10 == capability / 10 && code.capability <= capability) {
      return true;
    }
  }
  return false;
}

}  // namespace monsoon::emulator
