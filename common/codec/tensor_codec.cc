#include "common/codec/tensor_codec.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/codec/half.h"
#include "common/codec/int8.h"
#include "common/codec/length_check.h"
#include "common/codec/top_k.h"

namespace monsoon {
namespace {

class Float32Codec : public TensorCodec {
 public:
  size_t EncodedBytes(size_t floats) const override { return sizeof(float) * floats; }

  void Encode(std::span<const float> in, std::span<std::byte> out) const override {
    CHECK_EQ(out.size(), in.size_bytes());
    std::memcpy(out.data(), in.data(), in.size_bytes());
  }

  absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const override {
    if (in.size() != out.size_bytes()) {
      return LengthError(in.size(), out.size_bytes());
    }
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
    case TOP_K:
      if (!(top_k_share > 0 && top_k_share <= 1)) {
        return absl::InvalidArgumentError(
            absl::StrCat("top_k_share: ", top_k_share, " is not above 0 and at most 1"));
      }
      return std::make_unique<TopKCodec>(top_k_share);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("wire format ", static_cast<int>(format), " is not known here"));
  }
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
