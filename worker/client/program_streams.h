// ProgramStreams: streams that a program reads (monsoon_take_stream): the taking of one until its
// answer is here, and how far they were read until an exchange tells it.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "worker/client/exchange.h"
#include "worker/client/monsoon.h"
#include "worker/client/result.h"

namespace monsoon {

// Bytes of a state, and characters of a name, at most.
inline constexpr size_t kMaxStreamState = 64u << 10;
inline constexpr size_t kMaxStreamName = 128;

class ProgramStreams {
 public:
  // ---- taking one ----
  Result BeginTake(std::string_view name);
  // Until the answer is here, or nobody awaits it any more.
  bool takes() const { return !taking_.empty(); }
  void WriteTake(FieldWriter* fields) const { fields->String(taking_); }
  // The answer. False: it is none.
  bool TakeTaken(const Message& answer);
  void EndTake() { taking_.clear(); }
  // What the last answer told; its state stays until the next.
  monsoon_stream told() const;

  // ---- how far ----
  // Of what the next step counts.
  Result Note(std::string_view name, std::string_view state);
  // A step counts what was noted.
  void CountStep();
  // Writes what steps have counted, and forgets it.
  void TakeCounted(FieldWriter* fields);
  // All of this is nobody's any more.
  void Forget();

 private:
  std::string taking_;
  std::string state_;
  monsoon_stream told_{};
  std::map<std::string, std::string, std::less<>> noted_, counted_;
};

}  // namespace monsoon
