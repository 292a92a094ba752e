// One scalar of a configuration: a token, checked against its field's type and
// range.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "common/config/text_tokens.h"

namespace monsoon {

// What is wrong with a value; empty message: nothing.
struct ValueError {
  std::string message;
  std::string suggestion;
};

// "the number 12", "\"abc\"", "the end of the file": for "found ...".
std::string DescribeToken(const TextToken& token);

// Stores `token` (with a minus before it if `negative`) in `field` of
// `message`, added to a repeated one. On an error a repeated field gets its
// default value, so that indices stay right, and a singular one is left. The
// token must not be refused. For strings `token.text` may hold several literals'
// decoded content: see `decoded`.
ValueError StoreScalar(const TextToken& token, bool negative, const std::string* decoded,
                       const google::protobuf::FieldDescriptor& field,
                       google::protobuf::Message* message);

}  // namespace monsoon
