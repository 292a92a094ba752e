// The bytes of one file of a SimulatedStorage: those that everybody reads, and those
// that are on the disk.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/random.h"

namespace monsoon {

// The next word, each time.
class SimulatedRandom {
 public:
  SimulatedRandom(uint64_t seed, uint32_t sub) : stream_(seed, StreamKind::kTest, sub) {}
  // In [0, bound].
  uint64_t UpTo(uint64_t bound) {
    const uint64_t high = stream_.Bits(next_++);
    const uint64_t bits = high << 32 | stream_.Bits(next_++);
    return bound == UINT64_MAX ? bits : bits % (bound + 1);
  }
  // How much of what is in doubt is there: all, nothing, or any part. Without it few
  // cuts would show the ends.
  enum class Share { kAll, kNone, kAny };
  Share PickShare() {
    const uint64_t pick = UpTo(3);
    return pick == 0 ? Share::kAll : pick == 1 ? Share::kNone : Share::kAny;
  }
  // In [0, bound].
  uint64_t Pick(Share share, uint64_t bound) {
    return share == Share::kAll ? bound : share == Share::kNone ? 0 : UpTo(bound);
  }

 private:
  const PhiloxStream stream_;
  uint64_t next_ = 0;
};

class SimulatedContent {
 public:
  static constexpr uint64_t kBlockBytes = 4096;

  // All of it on the disk.
  explicit SimulatedContent(std::string bytes = "");

  const std::string& bytes() const { return bytes_; }
  void Write(uint64_t offset, absl::string_view bytes);
  void Clear();
  void Sync();
  // As a power cut may leave it (simulated_storage.h).
  SimulatedContent AfterPowerCut(SimulatedRandom* random) const;

 private:
  // What was done since the last sync.
  struct Step {
    bool cleared = false;
    uint64_t offset = 0;
    std::string bytes;
  };
  template <typename Visit>
  void ForEachBlock(const Step& step, Visit visit) const;
  static void ApplyTo(const Step& step, uint64_t block, std::string* content);

  std::string bytes_;
  std::string synced_;
  std::vector<Step> steps_;
  // Lengths since the last sync.
  uint64_t shortest_ = 0;
  uint64_t longest_ = 0;
};

}  // namespace monsoon
