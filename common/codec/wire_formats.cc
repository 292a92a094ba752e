#include "common/codec/wire_formats.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

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

template <typename Codec>
std::unique_ptr<TensorCodec> Make(double) {
  return std::make_unique<Codec>();
}

template <typename Codec>
std::unique_ptr<TensorCodec> MakeOfShare(double top_k_share) {
  return std::make_unique<Codec>(top_k_share);
}

constexpr char kOnlyAPart[] = " sends a part of a gradient, not parameters";
constexpr char kLeavesMostOut[] = " leaves most of a change out";

constexpr FormatTraits kFormats[] = {
    {.format = FLOAT32,
     .make = Make<Float32Codec>,
     .bytes_per_value = 4,
     .no_changes = " would be the copy whole",
     .carries_statistics = true},
    {.format = BFLOAT16,
     .make = Make<Bfloat16Codec>,
     .bytes_per_value = 2,
     .carries_statistics = true,
     .is_half = true},
    {.format = FLOAT16,
     .make = Make<Float16Codec>,
     .bytes_per_value = 2,
     .carries_statistics = true,
     .is_half = true},
    {.format = INT8, .make = Make<Int8Codec>, .bytes_per_value = 1},
    {.format = TOP_K,
     .make = MakeOfShare<TopKCodec>,
     .bytes_per_value = 8,
     .no_parameters = kOnlyAPart,
     .no_changes = kLeavesMostOut,
     .takes_share = true,
     .smaller = FLOAT32},
    {.format = INT4,
     .make = Make<Int4Codec>,
     .bytes_per_value = 0.5,
     .no_parameters = ": parameters rounded anew at each fetch to 4 bits do not train",
     .parameters_instead = "INT8 or wider; push_format may be INT4"},
    {.format = TOP_K_2BIT,
     .make = MakeOfShare<TopK2BitCodec>,
     .bytes_per_value = 1.75,
     .no_parameters = kOnlyAPart,
     .no_changes = kLeavesMostOut,
     .takes_share = true,
     .smaller = INT4},
};

}  // namespace

std::span<const FormatTraits> WireFormats() { return kFormats; }

const FormatTraits* FindFormat(WireFormat format) {
  const auto* const found = std::ranges::find(kFormats, format, &FormatTraits::format);
  return found == std::end(kFormats) ? nullptr : found;
}

bool IsHalf(WireFormat format) {
  const FormatTraits* const traits = FindFormat(format);
  return traits != nullptr && traits->is_half;
}

bool TakesShare(WireFormat format) {
  const FormatTraits* const traits = FindFormat(format);
  return traits != nullptr && traits->takes_share;
}

std::string FormatNames(bool (*chosen)(const FormatTraits&), absl::string_view last,
                        bool smallest_first) {
  std::vector<FormatTraits> formats;
  std::ranges::copy_if(kFormats, std::back_inserter(formats), chosen);
  if (smallest_first) {
    std::ranges::stable_sort(formats, {}, &FormatTraits::bytes_per_value);
  }
  std::string names;
  for (size_t i = 0; i < formats.size(); ++i) {
    const std::string before = i == 0                   ? ""
                               : i + 1 < formats.size() ? ", "
                                                        : absl::StrCat(" ", last, " ");
    absl::StrAppend(&names, before, formats[i].name());
  }
  return names;
}

}  // namespace monsoon
