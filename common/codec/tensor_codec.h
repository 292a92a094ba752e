// TensorCodec: how the floats of one stripe travel in a WireFormat
// (proto/wire_format.proto, which gives the layouts; docs/wire_protocol.md has the bytes and the
// largest error of each, and wire_formats.h what is known of them). All values little-endian.
//
// A shard that decodes need not know the share: it takes any TOP_K or TOP_K_2BIT record
// of at most half the values (a larger one of TOP_K would be larger than FLOAT32).
//
// What an encoding leaves out can be kept and added to the next gradient
// (error feedback; Seide et al. 2014, Karimireddy et al. 2019): EncodeWithFeedback.
//
// Thread safety: immutable.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/wire_format.pb.h"

namespace monsoon {

class TensorCodec {
 public:
  // `top_k_share` in (0, kMaxTopKShare] is for formats that take one. InvalidArgument for an
  // unknown format or a share outside.
  static absl::StatusOr<std::unique_ptr<TensorCodec>> Create(WireFormat format, double top_k_share);

  // For Decode, CheckLength and, in formats without a share, Encode; nullptr for an
  // unknown format. Lives forever.
  static const TensorCodec* Find(WireFormat format);

  // Whether parameters can be fetched in it, pushes bring the values of statistics in it, and
  // changes of a copy can be in it: FormatTraits (wire_formats.h) says why not. False for an
  // unknown format.
  static bool CarriesParameters(WireFormat format);
  static bool CarriesStatistics(WireFormat format);
  static bool CarriesChanges(WireFormat format);

  virtual ~TensorCodec() = default;

  // Exactly so many bytes stand for `floats` values.
  virtual size_t EncodedBytes(size_t floats) const = 0;

  // `out` has EncodedBytes(in.size()). A value that is not finite stays so in
  // the decoded stripe, somewhere.
  virtual void Encode(std::span<const float> in, std::span<std::byte> out) const = 0;

  // Whether `bytes` can stand for `floats` values; InvalidArgument says what
  // was expected.
  virtual absl::Status CheckLength(size_t bytes, size_t floats) const;

  // InvalidArgument when `in` is no encoding of out.size() floats; `out` is
  // then undefined. The result may have values that are not finite.
  virtual absl::Status Decode(std::span<const std::byte> in, std::span<float> out) const = 0;

  // Encodes in + residual, and keeps in `residual` what the encoding lost. So
  // the sum of all that is decoded and the residual is the sum of all inputs,
  // up to float32 rounding. `scratch` has the size of `in`; nothing overlaps.
  void EncodeWithFeedback(std::span<const float> in, std::span<float> residual,
                          std::span<float> scratch, std::span<std::byte> out) const;

  // The index of the first value of `in` that is not finite; in formats where each value
  // stands by itself, BFLOAT16 and FLOAT16.
  virtual std::optional<uint64_t> FirstNonFinite(std::span<const std::byte> in) const {
    return std::nullopt;
  }
};

}  // namespace monsoon
