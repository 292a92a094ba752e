// CheckRanges: what can be said of single settings, each by itself. Internal to
// config.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "common/config/reporter.h"

namespace monsoon {

// Upper ends that other checks need too.
inline constexpr uint32_t kMaxBatch = 1 << 20;
inline constexpr uint32_t kMaxChunk = 1 << 20;

// Tells `reporter` every number in `message`, which stands at `path`, that is
// outside its range, and every enum of an unknown value. A job's model and stop
// conditions are judged apart.
void CheckRanges(const google::protobuf::Message& message, const std::string& path,
                 Reporter* reporter);

}  // namespace monsoon
