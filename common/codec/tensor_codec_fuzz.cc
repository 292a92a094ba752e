// A record's content in some wire format, for a stripe of some length: it is
// refused, or decoded to as many values, which can be encoded again.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/codec/tensor_codec.h"
#include "common/codec/wire_formats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) {
    return 0;
  }
  // Those that are known, and one that is not.
  const size_t formats = monsoon::WireFormats().size() + 1;
  const auto format = static_cast<monsoon::WireFormat>(data[0] % formats);
  const size_t floats = 1 + data[1] + 256 * (data[2] % 16);
  const monsoon::TensorCodec* const codec = monsoon::TensorCodec::Find(format);
  if (codec == nullptr) {
    return 0;
  }
  const auto content = std::as_bytes(std::span(data + 3, size - 3));
  if (!codec->CheckLength(content.size(), floats).ok()) {
    return 0;
  }
  // Of exactly the length that is promised: a byte beyond is found.
  const std::vector<std::byte> in(content.begin(), content.end());
  std::vector<float> values(floats);
  if (!codec->Decode(in, values).ok() || format == monsoon::TOP_K) {
    return 0;
  }
  std::vector<std::byte> again(codec->EncodedBytes(floats));
  codec->Encode(values, again);
  std::vector<float> same(floats);
  CHECK(codec->Decode(again, same).ok());
  return 0;
}
