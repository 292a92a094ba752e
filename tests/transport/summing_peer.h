// SummingPeer: a process of its own that is no parameter server and serves
// frames with a handler of its own (summing_peer_main.cc), for tests.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/process/subprocess.h"
#include "proto/parameter_server.pb.h"

namespace monsoon {

// Kinds of its PeerFrames. Payloads are floats.
enum SummingKind : uint32_t {
  // Answered with one frame, whose payload is the sum.
  kSumFloats = 1,
  // Answered with the same floats in frames of kFloatsOfAnEcho; the body of the last
  // one is kLastEcho.
  kEchoFloats = 2,
  // Answered like kSumFloats, but not before the process has begun to drain.
  kHoldUntilDrained = 3,
};
inline constexpr uint32_t kFloatsOfAnEcho = 1000;
inline constexpr char kLastEcho[] = "last";

struct SummingPeer {
  Subprocess process;
  std::string address;      // for gRPC
  SharedMemoryOffer offer;  // for shared memory
};

// Starts one with so much memory for messages. Returns when it serves.
absl::StatusOr<SummingPeer> StartSummingPeer(uint64_t message_memory_bytes);

// The next line of the peer's output, without its end; "" when it has ended or
// says nothing for a long time.
std::string ReadLine(const Subprocess& process);

}  // namespace monsoon
