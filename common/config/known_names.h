// Names that people know from other frameworks, and what to write here.
#pragma once

#include <string>

namespace monsoon {

// What to write in place of `name` (a field, or a value of an enum, in any case)
// in the message or enum `type`, by its short name; "" when nothing is known of it.
//
//   HintForName("Optimizer", "adam")  "there are sgd, momentum and adagrad; ..."
std::string HintForName(const std::string& type, const std::string& name);

}  // namespace monsoon
