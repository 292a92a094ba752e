#include "common/codec/push_bytes.h"

#include <cmath>

#include "common/base/check.h"
#include "common/codec/wire_formats.h"

namespace monsoon {

uint64_t PushBytes(uint64_t values, WireFormat format, double top_k_share) {
  const FormatTraits* const traits = FindFormat(format);
  CHECK(traits != nullptr);
  const double sent = static_cast<double>(values) * (traits->takes_share ? top_k_share : 1.0);
  return static_cast<uint64_t>(std::ceil(sent * traits->bytes_per_value));
}

}  // namespace monsoon
