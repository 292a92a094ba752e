#include "common/codec/tensor_codec.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/wire_formats.h"

namespace monsoon {

absl::StatusOr<std::unique_ptr<TensorCodec>> TensorCodec::Create(WireFormat format,
                                                                 double top_k_share) {
  const FormatTraits* const traits = FindFormat(format);
  if (traits == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("wire format ", static_cast<int>(format), " is not known here"));
  }
  if (traits->takes_share && !(top_k_share > 0 && top_k_share <= kMaxTopKShare)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k_share: ", top_k_share, " is not above 0 and at most ", kMaxTopKShare));
  }
  return traits->make(top_k_share);
}

const TensorCodec* TensorCodec::Find(WireFormat format) {
  static const auto& all = *new std::map<WireFormat, std::unique_ptr<TensorCodec>>([] {
    std::map<WireFormat, std::unique_ptr<TensorCodec>> codecs;
    for (const FormatTraits& traits : WireFormats()) {
      codecs[traits.format] = traits.make(kMaxTopKShare);
    }
    return codecs;
  }());
  const auto found = all.find(format);
  return found == all.end() ? nullptr : found->second.get();
}

bool TensorCodec::CarriesParameters(WireFormat format) {
  const FormatTraits* const traits = FindFormat(format);
  return traits != nullptr && traits->no_parameters == nullptr;
}

bool TensorCodec::CarriesStatistics(WireFormat format) {
  const FormatTraits* const traits = FindFormat(format);
  return traits != nullptr && traits->carries_statistics;
}

bool TensorCodec::CarriesChanges(WireFormat format) {
  const FormatTraits* const traits = FindFormat(format);
  return traits != nullptr && traits->no_changes == nullptr;
}

absl::Status TensorCodec::CheckLength(size_t bytes, size_t floats) const {
  if (bytes != EncodedBytes(floats)) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes, " bytes instead of ", EncodedBytes(floats)));
  }
  return absl::OkStatus();
}

void TensorCodec::EncodeWithFeedback(std::span<const float> in, std::span<float> residual,
                                     std::span<float> scratch, std::span<std::byte> out) const {
  CHECK_EQ(residual.size(), in.size());
  CHECK_EQ(scratch.size(), in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    residual[i] += in[i];
  }
  Encode(residual, out);
  CHECK_OK(Decode(out, scratch));
  for (size_t i = 0; i < in.size(); ++i) {
    residual[i] -= scratch[i];
  }
}

}  // namespace monsoon
