// Patience: how long a command goes on asking a coordinator that is away for a moment, as
// when it dies and is started again. Calls that are repeated are safe to repeat.
#pragma once

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/cli/command.h"

namespace monsoon {

// --patience, for commands that watch.
void AddPatienceFlag(Invocation* call, double* seconds);

class Patience {
 public:
  // One that answers nothing for so long is not coming back.
  static constexpr double kDefaultSeconds = 60;
  // Between two tries.
  static constexpr absl::Duration kPause = absl::Milliseconds(250);

  // `call` outlives this.
  explicit Patience(const Invocation& call, double seconds = kDefaultSeconds)
      : call_(call), longest_(absl::Seconds(seconds)), last_answer_(call.env().clock->Now()) {}
  // `comes_back`: whether a coordinator that has not answered yet is being started again.
  Patience(const Invocation& call, double seconds, std::function<bool()> comes_back)
      : Patience(call, seconds) {
    comes_back_ = std::move(comes_back);
  }

  void Answered();
  bool answered() const { return answered_; }
  // Whether to ask again after `status`: the coordinator has answered before, says itself
  // that it cannot just now, or is being started again. Says so once.
  bool GoesOn(const absl::Status& status);

 private:
  bool IsKnown() const;

  const Invocation& call_;
  const absl::Duration longest_;
  std::function<bool()> comes_back_;
  absl::Duration last_answer_;
  bool answered_ = false;
  bool refused_ = false;  // it was there, and said that it cannot
  bool told_ = false;
};

}  // namespace monsoon
