// Thread: a std::thread, or a virtual one where a virtual thread makes it
// (virtual_threads.h); and how a thread sleeps.
//
// Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "absl/time/time.h"

namespace monsoon {

class Thread {
 public:
  // Of no thread.
  Thread() = default;
  // Runs `body` from now on.
  explicit Thread(std::function<void()> body);
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) noexcept;
  // It was joined or let go, or never was.
  ~Thread();

  bool joinable() const { return thread_.joinable() || virtual_.has_value(); }
  // Waits until the body has returned.
  void Join();
  // Nobody will wait for it.
  void LetGo();

  // Blocks the thread that calls for so long, virtual or not.
  static void SleepFor(absl::Duration duration);

 private:
  std::thread thread_;
  std::optional<uint64_t> virtual_;
};

}  // namespace monsoon
