// XXH3 with 64 bits and seed 0 (https://github.com/Cyan4973/xxHash): the checksum of
// files. It finds damage, not forgery.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace monsoon {

class Xxh3 {
 public:
  Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  ~Xxh3();

  void Add(std::span<const std::byte> bytes);
  // Of all that was added; more may follow.
  uint64_t Digest() const;

  static uint64_t Of(std::span<const std::byte> bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace monsoon
