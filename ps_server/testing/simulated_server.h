// A parameter server in virtual time: the real Shard and the real writer and reader of
// parts over a simulated disk, which crashes when it is told to. For simulations, that
// carry frames to it and judge what comes of them.
//
// Its job has gradients that count themselves: rate 1, parameters that begin at zero.
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/memory/aligned_floats.h"
#include "common/storage/simulated_storage.h"
#include "common/transport/frame/frame_codec.h"
#include "proto/tensor.pb.h"
#include "ps_server/checkpoint/kept_parts.h"
#include "ps_server/shard/shard.h"

namespace monsoon {

inline constexpr uint32_t kSimulatedShards = 2;
inline constexpr uint32_t kSimulatedWorkers = 2;
inline constexpr uint32_t kSimulatedStripes = 2;  // of a shard
inline constexpr size_t kSimulatedStripe = 32;    // floats
inline constexpr size_t kSimulatedSlice = kSimulatedStripe * kSimulatedStripes;

// Draws by (seed, how many were drawn).
class Dice {
 public:
  explicit Dice(uint64_t seed) : stream_(seed, StreamKind::kTest) {}
  uint32_t Below(uint32_t bound) { return stream_.Below(drawn_++, bound); }
  bool Once(uint32_t in) { return Below(in) == 0; }

 private:
  const PhiloxStream stream_;
  uint64_t drawn_ = 0;
};

// What travels to a shard: a push, or with `bytes` null a question for marks.
struct SimulatedFrame {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  std::shared_ptr<const std::string> bytes;
};
struct SimulatedAnswer {
  bool marks = false;
  Verdict verdict = APPLIED;
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  // The least of the stripes.
  uint64_t applied = UINT64_MAX;
  uint64_t durable = UINT64_MAX;
};

class SimulatedServer {
 public:
  // Of shard `index`, serving, with sessions of all workers open.
  explicit SimulatedServer(uint32_t index);

  bool up() const { return shard_ != nullptr; }
  uint64_t epoch() const { return epoch_; }

  // A new life, from the newest good part of the disk.
  void Start();
  // Writes a generation. `fail_at`: the disk fails after so many operations, and the
  // process must die.
  void Checkpoint(std::optional<uint32_t> fail_at);
  // `rot`: a bit of the newest part turns over, if there is an older one.
  void Crash(bool power_cut, bool rot, Dice* dice);
  SimulatedAnswer Serve(uint32_t worker, const SimulatedFrame& frame);
  std::vector<float> Parameters();

 private:
  void Rot(Dice* dice);
  void TellMarks(uint32_t worker, SimulatedAnswer* answer);
  void Push(uint32_t worker, const SimulatedFrame& frame, SimulatedAnswer* answer);

  const uint32_t index_;
  const std::string folder_;
  std::unique_ptr<SimulatedStorage> storage_;
  uint64_t epoch_ = 0;
  uint64_t generation_ = 0;  // the coordinator's number
  uint64_t written_ = 0;     // whole generations, as the process has seen
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<KeptParts> parts_;
  AlignedFloats scratch_{kMaxFramePayloadBytes / sizeof(float)};
};

}  // namespace monsoon
