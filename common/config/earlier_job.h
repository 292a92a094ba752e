// Jobs in files that an earlier version has written: a coordinator's journal, a shard's
// generation. Settings that have moved since lie there under their old field numbers, which
// today's messages do not know.
//
// Thread safety: pure functions.
#pragma once

#include "google/protobuf/message.h"

namespace monsoon {

// Gives each Downpour within `message`, at whatever depth, the LocalSteps that its
// EarlierLocalSteps say. What has none of these fields stays as it is. To be called on what was
// read from a file, before anybody looks at it.
void TakeOverEarlierJobs(google::protobuf::Message* message);

}  // namespace monsoon
