// CheckRanges: what can be said of single settings, each by itself. Internal to
// config.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "absl/strings/string_view.h"
#include "common/config/reporter.h"

namespace monsoon {

// Tells `reporter` every number in `message`, which stands at `path`, that is
// outside its range (common/settings/number_rule.h), and every enum of an unknown value. A
// job's model and stop conditions are judged apart.
void CheckRanges(const google::protobuf::Message& message, const std::string& path,
                 Reporter* reporter);

// Whether a number of `message` is within its range, on which other checks of it rest.
bool IsInRange(const google::protobuf::Message& message, absl::string_view field);

}  // namespace monsoon
