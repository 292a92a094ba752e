// ResetWatch: how many calls of each connection of this process's servers have ended without an
// answer. A call that is taken back together with its request ends within gRPC, which tells nobody
// of it, and costs what reads the connection: ten thousand a second of one connection keep others
// from being read. gRPC's channelz counts them.
//
// A thread of its own looks, ten times a second.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "common/base/mutex.h"

namespace monsoon {

class ResetWatch {
 public:
  // `peer` as gRPC calls it, and how many of its calls have ended so since it was told of last.
  using Tell = std::function<void(const std::string& peer, uint64_t calls)>;

  explicit ResetWatch(Tell tell);
  ~ResetWatch();
  ResetWatch(const ResetWatch&) = delete;
  ResetWatch& operator=(const ResetWatch&) = delete;

  // The number that stands behind "NAME":" in a text of channelz; 0: it is not there.
  static uint64_t NumberOf(absl::string_view text, absl::string_view name);

 private:
  void Run();
  void Look();

  const Tell tell_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The thread's: of each connection there is, by its number, as it was told.
  absl::flat_hash_map<int64_t, uint64_t> told_;
  std::thread thread_;
};

}  // namespace monsoon
