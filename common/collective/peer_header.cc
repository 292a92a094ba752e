#include "common/collective/peer_header.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/transport/frame/frame_codec.h"

namespace monsoon {
namespace {

constexpr absl::string_view kMagic = "MCL1";
constexpr size_t kHeaderBytes = 68;
constexpr size_t kAnswerBytes = 20;

template <typename T>
void Put(std::string* bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes->push_back(static_cast<char>(value >> (8 * i)));
  }
}

template <typename T>
T Take(absl::string_view* bytes) {
  std::make_unsigned_t<T> value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>((*bytes)[i])) << (8 * i);
  }
  bytes->remove_prefix(sizeof(T));
  return value;
}

absl::Status CheckEnumerators(uint8_t type, uint8_t operation, uint8_t algorithm, uint8_t order) {
  if (type < 1 || type > static_cast<uint8_t>(PeerHeader::Type::kAsk)) {
    return absl::InvalidArgumentError(absl::StrCat("a peer's frame has the unknown type ", type));
  }
  if (operation > static_cast<uint8_t>(Operation::kReduceScatter) ||
      algorithm > static_cast<uint8_t>(Algorithm::kExchange) ||
      order > static_cast<uint8_t>(SumOrder::kByRank)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a peer's frame is of an unknown collective: operation ", operation,
                     ", algorithm ", algorithm, ", order ", order));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodePeerHeader(const PeerHeader& header) {
  std::string bytes(kMagic.data(), kMagic.size());
  bytes.reserve(kHeaderBytes + header.text.size());
  Put(&bytes, static_cast<uint8_t>(header.type));
  Put(&bytes, static_cast<uint8_t>(header.what.operation));
  Put(&bytes, static_cast<uint8_t>(header.what.algorithm));
  Put(&bytes, static_cast<uint8_t>(header.what.order));
  Put(&bytes, header.generation);
  Put(&bytes, header.collective);
  Put(&bytes, header.number);
  Put(&bytes, header.what.count);
  Put(&bytes, header.consumed);
  Put(&bytes, header.sender);
  Put(&bytes, header.receiver);
  Put(&bytes, header.index);
  Put(&bytes, header.what.part_floats);
  Put(&bytes, header.what.root);
  bytes.append(header.text, 0, PeerHeader::kMostText);
  return bytes;
}

absl::StatusOr<PeerHeader> DecodePeerHeader(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes || bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("a peer's frame has no header of a collective");
  }
  bytes.remove_prefix(kMagic.size());
  const auto type = Take<uint8_t>(&bytes);
  const auto operation = Take<uint8_t>(&bytes);
  const auto algorithm = Take<uint8_t>(&bytes);
  const auto order = Take<uint8_t>(&bytes);
  if (const absl::Status status = CheckEnumerators(type, operation, algorithm, order);
      !status.ok()) {
    return status;
  }
  PeerHeader header;
  header.type = static_cast<PeerHeader::Type>(type);
  header.what.operation = static_cast<Operation>(operation);
  header.what.algorithm = static_cast<Algorithm>(algorithm);
  header.what.order = static_cast<SumOrder>(order);
  header.generation = Take<uint64_t>(&bytes);
  header.collective = Take<uint64_t>(&bytes);
  header.number = Take<uint64_t>(&bytes);
  header.what.count = Take<uint64_t>(&bytes);
  header.consumed = Take<uint64_t>(&bytes);
  header.sender = Take<uint32_t>(&bytes);
  header.receiver = Take<uint32_t>(&bytes);
  header.index = Take<uint32_t>(&bytes);
  header.what.part_floats = Take<uint32_t>(&bytes);
  header.what.root = Take<uint32_t>(&bytes);
  if (header.type == PeerHeader::Type::kFloats &&
      (header.what.part_floats == 0 ||
       header.what.part_floats > kMaxFramePayloadBytes / sizeof(float))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a peer's frame has parts of ", header.what.part_floats, " floats"));
  }
  if (bytes.size() > (header.type == PeerHeader::Type::kGaveUp ? PeerHeader::kMostText : 0)) {
    return absl::InvalidArgumentError("a peer's frame has too long a header");
  }
  header.text = ValidUtf8(bytes);
  return header;
}

std::string EncodePeerAnswer(const PeerAnswer& answer) {
  std::string bytes;
  Put(&bytes, answer.consumed);
  Put(&bytes, answer.collective);
  Put(&bytes, answer.waits_for);
  return bytes;
}

absl::StatusOr<PeerAnswer> DecodePeerAnswer(absl::string_view bytes) {
  if (bytes.size() != kAnswerBytes) {
    return absl::InvalidArgumentError("a peer's answer is none of a collective's");
  }
  PeerAnswer answer;
  answer.consumed = Take<uint64_t>(&bytes);
  answer.collective = Take<uint64_t>(&bytes);
  answer.waits_for = Take<uint32_t>(&bytes);
  return answer;
}

}  // namespace monsoon
