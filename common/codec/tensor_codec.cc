#include "common/codec/tensor_codec.h"

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/codec/half.h"
#include "common/codec/int4.h"
#include "common/codec/int8.h"
#include "common/codec/top_k.h"
#include "common/codec/top_k_2bit.h"

namespace monsoon {
namespace {

constexpr double kMaxTopKShare = 0.5;

class Float32Codec : public TensorCodec {
 public:
  size_t EncodedBytes(size_t floats) const override { return sizeof(float) * floats; }

  void Encode(std::span<const float> in, std::span<std::byte> out) const override {
    CHECK_EQ(out.size(), in.size_bytes());
    std::memcpy(out.data(), in.data(), in.size_bytes());
  }

  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override {
    RETURN_IF_ERROR(CheckLength(in.size(), out.size()));
    std::memcpy(out.data(), in.data(), in.size());
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorCodec>> TensorCodec::Create(WireFormat format,
                                                                 double top_k_share) {
  switch (format) {
    case FLOAT32:
      return std::make_unique<Float32Codec>();
    case BFLOAT16:
      return std::make_unique<Bfloat16Codec>();
    case FLOAT16:
      return std::make_unique<Float16Codec>();
    case INT8:
      return std::make_unique<Int8Codec>();
    case INT4:
      return std::make_unique<Int4Codec>();
    case TOP_K:
    case TOP_K_2BIT:
      if (!(top_k_share > 0 && top_k_share <= kMaxTopKShare)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "top_k_share: ", top_k_share, " is not above 0 and at most ", kMaxTopKShare));
      }
      if (format == TOP_K_2BIT) {
        return std::make_unique<TopK2BitCodec>(top_k_share);
      }
      return std::make_unique<TopKCodec>(top_k_share);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("wire format ", static_cast<int>(format), " is not known here"));
  }
}

const TensorCodec* TensorCodec::Find(WireFormat format) {
  static const auto& all = *new std::map<WireFormat, std::unique_ptr<TensorCodec>>([] {
    std::map<WireFormat, std::unique_ptr<TensorCodec>> codecs;
    for (const WireFormat known : {FLOAT32, BFLOAT16, FLOAT16, INT8, TOP_K, INT4, TOP_K_2BIT}) {
      codecs[known] = *Create(known, kMaxTopKShare);
    }
    return codecs;
  }());
  const auto found = all.find(format);
  return found == all.end() ? nullptr : found->second.get();
}

bool TensorCodec::CarriesParameters(WireFormat format) {
  return Find(format) != nullptr && format != TOP_K && format != INT4 && format != TOP_K_2BIT;
}

bool TensorCodec::CarriesStatistics(WireFormat format) {
  return format == FLOAT32 || format == BFLOAT16 || format == FLOAT16;
}

bool TensorCodec::CarriesChanges(WireFormat format) {
  return Find(format) != nullptr && format != FLOAT32 && format != TOP_K && format != TOP_K_2BIT;
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
