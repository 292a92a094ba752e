// kFormats: the wire formats (proto/wire_format.proto), a row each: all that the rest of the tree
// must know of one, so that a new format is a value of the enum, a codec and a row;
// CONTRIBUTING.md, "To add X, touch Y", has the list.
//
// Thread safety: pure functions.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "common/codec/tensor_codec.h"
#include "proto/wire_format.pb.h"

namespace monsoon {

// Of formats that send the largest values alone.
inline constexpr double kMaxTopKShare = 0.5;

// Every format can be pushed in: what it leaves out is added to the next push.
struct FormatTraits {
  WireFormat format = FLOAT32;
  std::unique_ptr<TensorCodec> (*make)(double top_k_share) = nullptr;
  // Of a value that is sent, but for scales and magnitudes of blocks.
  double bytes_per_value = 0;
  // Why parameters cannot be fetched in it, which have no error feedback, as the end of a
  // sentence that begins with its name; and what to write instead (unset: those that can).
  const char* no_parameters = nullptr;
  const char* parameters_instead = nullptr;
  // The same of the changes of a copy, of which what it rounds away comes with the next one.
  const char* no_changes = nullptr;
  // Whether each float is rounded by itself: then pushes bring the values of statistics
  // (ModelTensor.STATISTIC), else what is to be subtracted from them.
  bool carries_statistics = false;
  // Whether it is one of 16-bit floats, which a device encodes by itself.
  bool is_half = false;
  // Whether it sends top_k_share of the values; and what is smaller than a share above
  // kMaxTopKShare.
  bool takes_share = false;
  WireFormat smaller = FLOAT32;

  // "INT8".
  const std::string& name() const { return WireFormat_Name(format); }
};

// In the order of the enum.
std::span<const FormatTraits> WireFormats();

// Null for an unknown format.
const FormatTraits* FindFormat(WireFormat format);

// Those that are half of a float: false for an unknown one.
bool IsHalf(WireFormat format);
// Whether top_k_share means something.
bool TakesShare(WireFormat format);

// "FLOAT32, BFLOAT16 or INT8": the names of formats that are `chosen`, with `last` before the
// last one; the smallest first, or in the order of the table.
std::string FormatNames(bool (*chosen)(const FormatTraits&), absl::string_view last,
                        bool smallest_first = false);

}  // namespace monsoon
