// What a field name that a message does not have was probably meant to be.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace monsoon {

struct UnknownField {
  std::string suggestion;  // may be empty
  // The field it misspells beyond doubt, or null.
  const google::protobuf::FieldDescriptor* meant = nullptr;
  // It is a field of a message around this one.
  bool misplaced = false;
};

// `around` are the messages that enclose one of `type`, innermost first.
UnknownField ExplainUnknownField(const std::string& name, const google::protobuf::Descriptor& type,
                                 const std::vector<const google::protobuf::Descriptor*>& around);

// Names of all fields, in the order of the .proto file.
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& type);
std::vector<std::string> FieldNames(const google::protobuf::OneofDescriptor& oneof);

}  // namespace monsoon
