// `submit --set PATH=VALUE`: changes one field of a configuration.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/config/diagnostics.h"
#include "common/config/location_map.h"

namespace monsoon {

// "downpour.n_fetch=4", "model.layer[0].dense.units=64", "stop={epochs: 2}",
// "model.input_shape=[784]". VALUE is protobuf text; quotes around a string may
// be left out. A list is replaced whole; an index names one of its messages.
// Setting one member of a oneof clears the others. Returns false, with the
// message unchanged, when there is a diagnostic, whose file is "--set PATH=VALUE".
bool ApplyOverride(const std::string& assignment, google::protobuf::Message* message,
                   LocationMap* locations, std::vector<Diagnostic>* diagnostics);

// The same without locations.
absl::Status ApplyOverride(const std::string& assignment, google::protobuf::Message* message);

// PATH of an assignment, blanks removed.
std::string OverridePath(const std::string& assignment);

}  // namespace monsoon
