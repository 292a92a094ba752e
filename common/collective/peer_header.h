// PeerHeader: what a frame between members says of itself. It is the body of a PeerFrame
// (proto/tensor.proto) of kind kCollectiveKind; floats are the frame's payload.
//
//   bytes 0..3    "MCL1"
//   byte  4       type            byte 5  operation
//   byte  6       algorithm       byte 7  order
//   bytes 8..15   generation      bytes 16..23  collective
//   bytes 24..31  number          bytes 32..39  count
//   bytes 40..47  consumed        bytes 48..51  sender
//   bytes 52..55  receiver        bytes 56..59  index
//   bytes 60..63  part_floats     bytes 64..67  root
//   bytes 68..    text, of kGaveUp alone, at most kMostText bytes
//
// little-endian. The answer is a PeerFrame of the same kind whose body is a PeerAnswer:
//
//   bytes 0..7    consumed        bytes 8..15  collective
//   bytes 16..19  waits_for
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/collective/collective.h"

namespace monsoon {

inline constexpr uint32_t kCollectiveKind = 1;

struct PeerHeader {
  enum class Type : uint8_t {
    kFloats = 1,    // of a step
    kConsumed = 2,  // the sender has taken frames that it had kept
    kGaveUp = 3,    // the sender's generation has failed; `text` says why
    kAsk = 4,       // for whom does the receiver wait?
  };
  static constexpr size_t kMostText = 1024;

  Type type = Type::kFloats;
  uint64_t generation = 0;
  uint32_t sender = 0;
  uint32_t receiver = 0;
  // Of kFloats. The k-th call of the generation, from 1, and what it is. Of kGaveUp: the last call
  // that the sender has all of; those who are in it need not end it for the sender's sake.
  uint64_t collective = 0;
  Collective what;
  // Of kFloats: from 1, one more with each frame from this sender to this receiver. Decides what
  // was seen before.
  uint64_t number = 0;
  // Of kFloats: among the frames of the collective from sender to receiver.
  uint32_t index = 0;
  // Of all: how many of the receiver's frames of floats the sender has done with, in the
  // generation. What it has not is in its memory: the receiver's window.
  uint64_t consumed = 0;
  std::string text;
};

std::string EncodePeerHeader(const PeerHeader& header);
// InvalidArgument says what is wrong. What it gives has known enumerators and a part of at least
// one float and at most a frame's payload; the rest is for the receiver to judge.
absl::StatusOr<PeerHeader> DecodePeerHeader(absl::string_view bytes);

struct PeerAnswer {
  static constexpr uint32_t kNobody = UINT32_MAX;
  // As PeerHeader::consumed, the frame that is answered included if it is done with.
  uint64_t consumed = 0;
  // Of kAsk: in which collective the asked member is (0: in none), and for whom it waits there.
  uint64_t collective = 0;
  uint32_t waits_for = kNobody;
};

std::string EncodePeerAnswer(const PeerAnswer& answer);
absl::StatusOr<PeerAnswer> DecodePeerAnswer(absl::string_view bytes);

}  // namespace monsoon
