// SetDefaults: what stands in for number fields that are not set. Internal to
// config.
#pragma once

#include <google/protobuf/message.h>

#include <initializer_list>

namespace monsoon {

struct DefaultNumber {
  const char* field;  // of type uint32 or double
  double value;
};

// Sets those of the fields that are 0.
void SetDefaults(std::initializer_list<DefaultNumber> defaults, google::protobuf::Message* message);

}  // namespace monsoon
