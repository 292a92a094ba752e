#include "ps_server/shard/public_copy.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace monsoon {

PublicCopy::PublicCopy(WireFormat format, std::span<float> copy)
    : codec_(TensorCodec::Find(format)), copy_(copy) {
  CHECK(codec_ != nullptr);
}

void PublicCopy::Forget() {
  begun_ = false;
  steps_.clear();
  bytes_ = 0;
}

void PublicCopy::Publish(std::span<const float> parameters, uint64_t version) {
  if (!begun_) {
    std::ranges::copy(parameters, copy_.begin());
    begun_ = true;
    version_ = version;
    return;
  }
  if (version == version_) {
    return;
  }
  std::vector<float> change(copy_.size());
  for (size_t i = 0; i < change.size(); ++i) {
    change[i] = parameters[i] - copy_[i];
  }
  Step step{version_, std::vector<std::byte>(codec_->EncodedBytes(change.size()))};
  codec_->Encode(change, step.bytes);
  CHECK_OK(codec_->Decode(step.bytes, change));
  for (size_t i = 0; i < change.size(); ++i) {
    copy_[i] += change[i];
  }
  version_ = version;
  bytes_ += step.bytes.size();
  steps_.push_back(std::move(step));
  while (bytes_ >= copy_.size_bytes()) {
    bytes_ -= steps_.front().bytes.size();
    steps_.pop_front();
  }
}

void PublicCopy::Restore(uint64_t version) {
  Forget();
  begun_ = true;
  version_ = version;
}

uint64_t PublicCopy::Cut(std::span<const float> parameters, uint64_t version,
                         std::span<float> out) const {
  if (!begun_) {
    std::ranges::copy(parameters, out.begin());
    return version;
  }
  std::ranges::copy(copy_, out.begin());
  return version_;
}

std::optional<std::vector<std::span<const std::byte>>> PublicCopy::StepsFrom(uint64_t known) const {
  std::vector<std::span<const std::byte>> found;
  if (begun_ && known == version_) {
    return found;
  }
  const auto first = std::ranges::find(steps_, known, &Step::from);
  if (first == steps_.end()) {
    return std::nullopt;
  }
  for (auto step = first; step != steps_.end(); ++step) {
    found.emplace_back(step->bytes);
  }
  return found;
}

}  // namespace monsoon
