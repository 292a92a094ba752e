// KeptBytes: a push as it was encoded, kept until it is durable: in memory of its own, or
// where the pusher has it. Large ones of its own are in huge
// pages: the first write to 64 MiB of small ones takes longer than to copy a push there.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/memory/aligned_floats.h"
#include "common/memory/float_arena.h"
#include "ps_server/client/kept_rows.h"

namespace monsoon {

class KeptBytes {
 public:
  explicit KeptBytes(size_t size) { Resize(size); }
  // `bytes` are somebody else's, and stay as they are while `owner` is held.
  KeptBytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : size_(bytes.size()), elsewhere_(bytes), owner_(std::move(owner)) {}

  // What it holds after that is anything. Of memory of its own, as is the writable form
  // of bytes().
  void Resize(size_t size) {
    const size_t floats = (size + sizeof(float) - 1) / sizeof(float);
    if (floats > memory_.size()) {
      memory_ = Memory(floats);
    }
    size_ = size;
  }

  // Of the push that they are.
  void set_weight(float weight, float part) {
    weight_ = weight;
    part_ = part;
  }
  float weight() const { return weight_; }
  float part() const { return part_; }
  void set_patience(absl::Duration patience) { patience_ = patience; }
  absl::Duration patience() const { return patience_; }
  void set_absent(std::vector<uint32_t> absent) { absent_ = std::move(absent); }
  const std::vector<uint32_t>& absent() const { return absent_; }

  // And the rows of the push; null: the job has no tables.
  void set_rows(std::shared_ptr<const KeptRows> rows) { rows_ = std::move(rows); }
  const std::shared_ptr<const KeptRows>& rows() const { return rows_; }

  // Of all that is kept.
  size_t size() const {
    return size_ + absent_.size() * sizeof(uint32_t) + (rows_ == nullptr ? 0 : rows_->size());
  }
  std::span<std::byte> bytes() { return std::as_writable_bytes(memory_.span()).first(size_); }
  std::span<const std::byte> bytes() const {
    return owner_ != nullptr ? elsewhere_ : std::as_bytes(memory_.span()).first(size_);
  }

 private:
  static constexpr size_t kHugePageBytes = size_t{2} << 20;

  static AlignedFloats Memory(size_t floats) {
    if (floats * sizeof(float) >= kHugePageBytes) {
      if (auto arena = FloatArena::Create(FloatArena::BytesFor(1, floats)); arena.ok()) {
        return AlignedFloats(*std::move(arena), floats);
      }
    }
    return AlignedFloats::Uninitialized(floats);
  }

  AlignedFloats memory_;
  size_t size_ = 0;
  float weight_ = 1;
  float part_ = 1;
  absl::Duration patience_;
  std::vector<uint32_t> absent_;  // as PushRequest.absent
  std::shared_ptr<const KeptRows> rows_;
  std::span<const std::byte> elsewhere_;
  std::shared_ptr<const void> owner_;  // null: the memory is its own
};

}  // namespace monsoon
