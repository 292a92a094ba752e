#include "common/base/xxh3.h"

#include "common/base/check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace monsoon {

struct Xxh3::State {
  XXH3_state_t xxh;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {
  CHECK_EQ(XXH3_64bits_reset(&state_->xxh), XXH_OK);
}
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;
Xxh3::~Xxh3() = default;

void Xxh3::Add(std::span<const std::byte> bytes) {
  CHECK_EQ(XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size()), XXH_OK);
}

uint64_t Xxh3::Digest() const { return XXH3_64bits_digest(&state_->xxh); }

uint64_t Xxh3::Of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace monsoon
