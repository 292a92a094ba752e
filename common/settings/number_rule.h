// NumberRule: the range of one number of a configuration, and what it is where nobody sets it, as
// the options of its field say (proto/setting.proto). Checks and defaults of job, cluster and
// chaos files read these rules, and so do the shards.
//
// Thread safety: pure functions.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

struct NumberRule {
  absl::string_view field;
  double least = 0;
  double most = 0;
  std::string complaint;  // $0: the value, $1: the most
  bool zero_is_unset = false;
  double unset = 0;  // what stands in for it
};

// What rounds to the largest float32.
inline constexpr double kLargestFloat = 0x1.fffffefffffffp127;
// Rates must survive the rounding to float32, or nothing would ever change; and a smaller
// epsilon is zero there, so that parameters nobody moved become 0 / 0.
inline constexpr double kSmallestFloat = std::numeric_limits<float>::min();

inline constexpr char kTooMany[] = "$0 is more than $1";

// What is wrong with the value of a field that is set; empty where nothing is.
std::string NumberComplaint(const NumberRule& rule, double value);
std::string NumberComplaint(const NumberRule& rule, uint64_t value);

// What is wrong with the number that `message` has in the field of that rule, set or not.
std::string NumberComplaint(const NumberRule& rule, const google::protobuf::Message& message);

// The rule of a field, which lives as long as the program; none where nothing is said of the
// field, or that it is unchecked.
std::optional<NumberRule> RuleOf(const google::protobuf::FieldDescriptor& field);

// The rules of a message's own fields, in their order.
std::vector<NumberRule> NumberRules(const google::protobuf::Descriptor& type);

// InvalidArgument names the first number of `message` itself that is out of its range, behind
// `path`, where the message stands: "rounds.".
absl::Status CheckNumbers(const google::protobuf::Message& message, absl::string_view path);

// Sets the numbers of `message` itself, but for these, that are not set and have something that
// stands in for them.
void FillUnset(google::protobuf::Message* message,
               const std::vector<absl::string_view>& but_for = {});

// A number of `message`, or what stands in for it where it is not set.
double NumberOrUnset(const google::protobuf::Message& message, absl::string_view field);

}  // namespace monsoon
