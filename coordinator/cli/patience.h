// Patience: how long a command goes on asking a coordinator that is away for a moment, as
// when it dies and is started again. Calls that are repeated are safe to repeat.
#pragma once

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

  void Answered();
  // Whether to ask again after `status`: the coordinator has answered before, and only
  // seems to be away. Says so once.
  bool GoesOn(const absl::Status& status);

 private:
  const Invocation& call_;
  const absl::Duration longest_;
  absl::Duration last_answer_;
  bool answered_ = false;
  bool told_ = false;
};

}  // namespace monsoon
