// Names that people know from other frameworks, or from earlier versions, and what to write
// here: as the options of fields and values say (KnownAs in proto/setting.proto).
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace monsoon {

// What to write in place of `name` (a field, or a value of an enum, in any case)
// in the message or enum `type`; "" when nothing is known of it.
//
//   HintForName(*Optimizer::descriptor(), "adamax")  "there are sgd, momentum and adagrad; ..."
std::string HintForName(const google::protobuf::Descriptor& type, const std::string& name);
std::string HintForName(const google::protobuf::EnumDescriptor& type, const std::string& name);

}  // namespace monsoon
