#include "common/storage/simulated_content.h"

#include <algorithm>
#include <utility>

namespace monsoon {

SimulatedContent::SimulatedContent(std::string bytes) : bytes_(std::move(bytes)) { Sync(); }

void SimulatedContent::Write(uint64_t offset, absl::string_view bytes) {
  steps_.push_back({.offset = offset, .bytes = std::string(bytes)});
  bytes_.resize(std::max<uint64_t>(bytes_.size(), offset + bytes.size()), '\0');
  bytes_.replace(offset, bytes.size(), bytes.data(), bytes.size());
  longest_ = std::max<uint64_t>(longest_, bytes_.size());
}

void SimulatedContent::Clear() {
  steps_.push_back({.cleared = true});
  bytes_.clear();
  shortest_ = 0;
}

void SimulatedContent::Sync() {
  synced_ = bytes_;
  steps_.clear();
  shortest_ = longest_ = bytes_.size();
}

SimulatedContent SimulatedContent::AfterPowerCut(SimulatedRandom* random) const {
  std::string content = synced_;
  content.resize(longest_, '\0');
  // Of each block, how many of its steps reached the disk.
  std::vector<uint64_t> reached((longest_ + kBlockBytes - 1) / kBlockBytes, 0);
  for (const Step& step : steps_) {
    ForEachBlock(step, [&](uint64_t block) { ++reached[block]; });
  }
  const SimulatedRandom::Share share = random->PickShare();
  for (uint64_t& steps : reached) {
    steps = random->Pick(share, steps);
  }
  for (const Step& step : steps_) {
    ForEachBlock(step, [&](uint64_t block) {
      if (reached[block] > 0) {
        --reached[block];
        ApplyTo(step, block, &content);
      }
    });
  }
  content.resize(shortest_ + random->Pick(random->PickShare(), longest_ - shortest_));
  return SimulatedContent(std::move(content));
}

template <typename Visit>
void SimulatedContent::ForEachBlock(const Step& step, Visit visit) const {
  const uint64_t end = step.cleared ? longest_ : step.offset + step.bytes.size();
  for (uint64_t block = step.offset / kBlockBytes; block * kBlockBytes < end; ++block) {
    visit(block);
  }
}

void SimulatedContent::ApplyTo(const Step& step, uint64_t block, std::string* content) {
  const uint64_t first = block * kBlockBytes;
  const uint64_t last = std::min<uint64_t>(first + kBlockBytes, content->size());
  if (step.cleared) {
    content->replace(first, last - first, last - first, '\0');
    return;
  }
  const uint64_t begin = std::max(first, step.offset);
  const uint64_t end = std::min<uint64_t>(last, step.offset + step.bytes.size());
  content->replace(begin, end - begin, step.bytes, begin - step.offset, end - begin);
}

}  // namespace monsoon
