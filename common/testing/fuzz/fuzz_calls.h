// FuzzCalls: an input as a run of calls, each of a kind, with flags and a message:
//
//   call = kind flags length message     one byte, one byte, two bytes little-endian
//
// A length beyond the end is cut, so every input is a run of calls.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace monsoon {

struct FuzzCall {
  uint8_t kind = 0;
  uint8_t flags = 0;
  std::string message;

  bool flag(int bit) const { return (flags >> bit & 1) != 0; }
};

class FuzzCalls {
 public:
  FuzzCalls(const uint8_t* data, size_t size) : rest_(data, size) {}

  // Nothing at the end.
  std::optional<FuzzCall> Next() {
    constexpr size_t kHead = 4;
    if (rest_.size() < kHead) {
      return std::nullopt;
    }
    const size_t length = rest_[2] + 256 * size_t{rest_[3]};
    FuzzCall call{rest_[0], rest_[1], {}};
    rest_ = rest_.subspan(kHead);
    const std::span<const uint8_t> message = rest_.first(std::min(length, rest_.size()));
    call.message.assign(message.begin(), message.end());
    rest_ = rest_.subspan(message.size());
    return call;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace monsoon
