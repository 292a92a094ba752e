#include "common/settings/number_rule.h"

#include <cmath>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "common/base/check.h"
#include "proto/setting.pb.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <typename Number>
std::string Complaint(const NumberRule& rule, Number value) {
  // The comparisons are false for NaN.
  if ((rule.zero_is_unset && value == 0) || (value >= rule.least && value <= rule.most)) {
    return "";
  }
  const bool too_few = std::is_integral_v<Number> && value < rule.least;
  return too_few ? absl::StrCat("must be at least ", static_cast<Number>(rule.least))
                 : absl::Substitute(rule.complaint, value, static_cast<Number>(rule.most));
}

// Half way from a float32 to its neighbour in the direction of `to`.
double HalfWay(double from, float to) {
  return (from + std::nextafter(static_cast<float>(from), to)) / 2;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The smallest double that is above `end` once rounded to float32, and normal there.
double JustAbove(double end) {
  return end == 0 ? kSmallestFloat : std::nextafter(HalfWay(end, kInfinity), kInfinity);
}

// The largest double that is below `end` once rounded to float32.
double JustBelow(double end) { return std::nextafter(HalfWay(end, -kInfinity), -kInfinity); }

bool IsDouble(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}

// "$0 is outside [0, 1)", or what is easier to read where an end is open.
std::string ComplaintOf(const Setting& setting, bool is_double) {
  if (!setting.complaint().empty()) {
    return setting.complaint();
  }
  if (!is_double) {
    return kTooMany;
  }
  const bool has_upper = setting.has_most() || setting.has_below();
  if (!has_upper) {
    return setting.has_above()   ? "$0 is not positive and finite"
           : setting.has_least() ? "$0 is not a finite number of at least 0"
                                 : "$0 is not a finite float32";
  }
  return absl::StrCat("$0 is outside ", setting.has_above() ? "(" : "[",
                      setting.has_above() ? setting.above() : setting.least(), ", ",
                      setting.has_below() ? setting.below() : setting.most(),
                      setting.has_below() ? ")" : "]");
}

double LeastOf(const Setting& setting, bool is_double) {
  return setting.has_least()   ? setting.least()
         : setting.has_above() ? JustAbove(setting.above())
         : is_double           ? -kLargestFloat
                               : 0;
}

double MostOf(const Setting& setting) {
  return setting.has_most()    ? setting.most()
         : setting.has_below() ? JustBelow(setting.below())
                               : kLargestFloat;
}

const FieldDescriptor& FieldOf(const Message& message, absl::string_view name) {
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(std::string(name));
  CHECK(field != nullptr);
  return *field;
}

double NumberOf(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<double>(reflection.GetUInt64(message, &field));
    default:
      return reflection.GetUInt32(message, &field);
  }
}

bool IsSet(const Message& message, const FieldDescriptor& field) {
  return field.has_presence() ? message.GetReflection()->HasField(message, &field)
                              : NumberOf(message, field) != 0;
}

}  // namespace

std::string NumberComplaint(const NumberRule& rule, double value) { return Complaint(rule, value); }

std::string NumberComplaint(const NumberRule& rule, uint64_t value) {
  return Complaint(rule, value);
}

std::string NumberComplaint(const NumberRule& rule, const Message& message) {
  const FieldDescriptor& field = FieldOf(message, rule.field);
  if (IsDouble(field)) {
    return Complaint(rule, message.GetReflection()->GetDouble(message, &field));
  }
  return Complaint(rule, field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64
                             ? message.GetReflection()->GetUInt64(message, &field)
                             : uint64_t{message.GetReflection()->GetUInt32(message, &field)});
}

std::optional<NumberRule> RuleOf(const FieldDescriptor& field) {
  const Setting& setting = field.options().GetExtension(monsoon::setting);
  if (!field.options().HasExtension(monsoon::setting) || !setting.unchecked().empty()) {
    return std::nullopt;
  }
  return NumberRule{.field = field.name(),
                    .least = LeastOf(setting, IsDouble(field)),
                    .most = MostOf(setting),
                    .complaint = ComplaintOf(setting, IsDouble(field)),
                    .zero_is_unset = setting.zero_is_unset(),
                    .unset = setting.unset()};
}

std::vector<NumberRule> NumberRules(const Descriptor& type) {
  std::vector<NumberRule> rules;
  for (int i = 0; i < type.field_count(); ++i) {
    if (std::optional<NumberRule> rule = RuleOf(*type.field(i))) {
      rules.push_back(*std::move(rule));
    }
  }
  return rules;
}

absl::Status CheckNumbers(const Message& message, absl::string_view path) {
  for (const NumberRule& rule : NumberRules(*message.GetDescriptor())) {
    if (const std::string complaint = NumberComplaint(rule, message); !complaint.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, rule.field, ": ", complaint));
    }
  }
  return absl::OkStatus();
}

void FillUnset(Message* message, const std::vector<absl::string_view>& but_for) {
  const Descriptor& type = *message->GetDescriptor();
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const double unset = field.options().GetExtension(setting).unset();
    if (unset == 0 || IsSet(*message, field) || absl::c_linear_search(but_for, field.name())) {
      continue;
    }
    if (IsDouble(field)) {
      reflection.SetDouble(message, &field, unset);
    } else {
      reflection.SetUInt32(message, &field, static_cast<uint32_t>(unset));
    }
  }
}

double NumberOrUnset(const Message& message, absl::string_view name) {
  const FieldDescriptor& field = FieldOf(message, name);
  return IsSet(message, field) ? NumberOf(message, field)
                               : field.options().GetExtension(setting).unset();
}

}  // namespace monsoon
