// What a program (libmonsoon) and its sidecar say to each other: messages over a Unix
// socket, and the fields in them. Both are of one build, which the first message proves.
//
//   program                                sidecar
//   kJoin: coordinator, job, tensors  -->      with the memory where a sidecar died before
//                                     <--  kJoined: job, offsets, with the vectors' memory
//   kBegin, kDraw, kStep, kEvaluated,
//   kNoMoreSamples, kFinish           -->
//                                     <--  kEvent, with batches that are leased; or kError
//   kFetchRows: table, rows           -->
//                                     <--  kRows: their values; or kError
//   kTakeStream: its name             -->
//                                     <--  kStream: how far it was read; or kError
//   kDiverged: what is not finite     -->
//                                     <--  kError: its part is over; kEvent where that was lost
//
// One request at a time; each has one answer. The program says that it leaves by shutting
// down a second socket, whose other end the sidecar watches beside the program's
// life. The memory holds three vectors of floats, one after another: parameters, gradient,
// and what is to be evaluated; then SharedFlags. A request hands it to the sidecar, the
// answer hands it back.
//
// Needs the C++ library and POSIX only: libmonsoon links it into any process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace monsoon {

enum class MessageKind : uint32_t {
  kJoin = 1,
  kBegin = 2,
  kDraw = 3,
  kStep = 4,
  kEvaluated = 5,
  kNoMoreSamples = 6,
  kFetchRows = 7,
  kFinish = 8,
  kDiverged = 9,
  kTakeStream = 10,
  kJoined = 101,
  kEvent = 102,
  kError = 103,
  kRows = 104,
  kStream = 105,
};

struct alignas(64) SharedFlags {
  // Gradients that the sidecar has read, and the program may write again, before the answer.
  std::atomic<uint64_t> gradients_taken;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Of the memory with vectors of so many floats; `stride` is a multiple of 16.
constexpr size_t SharedBytes(size_t stride) {
  return 3 * stride * sizeof(float) + sizeof(SharedFlags);
}
inline SharedFlags* FlagsIn(float* vectors, size_t stride) {
  return reinterpret_cast<SharedFlags*>(vectors + 3 * stride);
}

// Of one message; a model of 4096 tensors with long names fits, and so do the rows of a step.
inline constexpr uint32_t kMaxMessageBytes = 64u << 20;

// Writes the fields of a message, one after another.
class FieldWriter {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  void Number(T value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void String(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  void Bytes(const void* data, size_t size) { bytes_.append(static_cast<const char*>(data), size); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads them in the same order. A field that is not whole reads as 0 or "", and so do all
// after it: ask ok() at the end.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : left_(bytes) {}

  template <typename T>
  requires std::is_arithmetic_v<T> T Number() {
    T value = 0;
    if (const std::string_view bytes = Take(sizeof(value)); bytes.size() == sizeof(value)) {
      std::memcpy(&value, bytes.data(), sizeof(value));
    }
    return value;
  }
  std::string String() { return std::string(Take(Number<uint32_t>())); }
  std::string_view Take(size_t size);

  // All fields were whole, and nothing is left.
  bool ok() const { return !broken_ && left_.empty(); }
  bool broken() const { return broken_; }

 private:
  std::string_view left_;
  bool broken_ = false;
};

struct Message {
  MessageKind kind = MessageKind::kEvent;
  std::string fields;
};

// One end of a stream socket that carries messages. Thread safety: none.
class MessageSocket {
 public:
  enum class Outcome {
    kDone,
    kTimeout,
    kInterrupted,  // a signal handler ran; what has arrived is kept for the next call
    kClosed,       // by the other side, or it broke
    kMalformed,    // what arrived is no message
  };

  // Owns the descriptor.
  explicit MessageSocket(int fd) : fd_(fd) {}
  ~MessageSocket();
  MessageSocket(const MessageSocket&) = delete;
  MessageSocket& operator=(const MessageSocket&) = delete;

  // Writes all of it, with a copy of the descriptor `passed` unless that is -1. False: the
  // other side is gone, or takes nothing for 30 seconds.
  bool Send(MessageKind kind, std::string_view fields, int passed = -1);

  // Waits for a whole message, at most so long; -1: without end. *passed becomes a
  // descriptor that came with it, which the caller closes; null: none is taken.
  Outcome Receive(int timeout_ms, Message* message, int* passed = nullptr);

  // From now on Receive looks for a message for a moment before it sleeps, as long as that
  // finds one: a sleeper is woken late, by tens of microseconds. `between` is called between
  // looks.
  void LookBeforeSleep(std::function<void()> between) {
    looks_ = true;
    between_looks_ = std::move(between);
  }

  int fd() const { return fd_; }

 private:
  // Takes what has arrived; kTimeout: nothing has.
  Outcome ReadSome();
  // Reads as soon as something arrives within that moment; kTimeout: nothing did.
  Outcome Look();

  const int fd_;
  bool looks_ = false;
  std::function<void()> between_looks_;
  uint32_t vain_looks_ = 0;  // in a row
  std::string arrived_;
  int passed_ = -1;
};

// What an event tells besides its kind (monsoon_event, monsoon_stats).
struct EventFigures {
  uint32_t kind = 0;
  uint8_t parameters_changed = 0;
  uint8_t discarded = 0;
  uint32_t worker = 0;
  uint32_t replicas = 0;
  uint64_t fetches = 0;
  uint64_t pushes = 0;
  uint64_t refused = 0;
  uint64_t bytes_fetched = 0;
  uint64_t bytes_pushed = 0;
  int64_t staleness = -1;
  uint64_t staleness_max = 0;
  uint64_t sessions = 0;
  uint64_t evaluations = 0;
  // That the next difference is to have; 0: as many as the job says.
  uint32_t local_steps = 0;

  void Write(FieldWriter* writer) const;
  static EventFigures Read(FieldReader* reader);
};

}  // namespace monsoon
