// A process that was killed holds its listening socket until the kernel has given
// back its memory: 0.16 s for 3 GiB. Whoever starts it anew at once waits for that.
#pragma once

#include "absl/time/time.h"
#include "common/config/address.h"

namespace monsoon {

// Returns once `address` can be bound, or after `timeout`: somebody lives there, or
// it is not this machine's, which the server's own try will say. Port 0 and paths
// are free always.
void AwaitFreeAddress(const Address& address, absl::Duration timeout);

}  // namespace monsoon
