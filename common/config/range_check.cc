#include "common/config/range_check.h"

#include <google/protobuf/descriptor.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/config/location_map.h"
#include "common/settings/number_rule.h"
#include "proto/model.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <typename Number>
void CheckNumber(const FieldDescriptor& field, Number value, const std::string& path,
                 Reporter* reporter) {
  const std::optional<NumberRule> rule = RuleOf(field);
  const std::string complaint = rule ? NumberComplaint(*rule, value) : "";
  if (!complaint.empty()) {
    reporter->Error(path, complaint);
  }
}

// Whether 0 means that another field tells the number.
bool ToldElsewhere(const Message& message, const FieldDescriptor& field) {
  const auto* const dense = google::protobuf::DynamicCastToGenerated<Dense>(&message);
  return dense != nullptr && field.number() == Dense::kUnitsFieldNumber && dense->units() == 0 &&
         !dense->tied_to().empty();
}

}  // namespace

bool IsInRange(const Message& message, absl::string_view field) {
  const auto rule = RuleOf(*message.GetDescriptor()->FindFieldByName(std::string(field)));
  return !rule || NumberComplaint(*rule, message).empty();
}

void CheckRanges(const Message& message, const std::string& path, Reporter* reporter) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string inner = JoinPath(path, field.name());
    if (field.is_repeated() && field.message_type() != nullptr) {
      for (int k = 0; k < reflection.FieldSize(message, &field); ++k) {
        CheckRanges(reflection.GetRepeatedMessage(message, &field, k),
                    absl::StrCat(inner, "[", k, "]"), reporter);
      }
      continue;
    }
    if (ToldElsewhere(message, field)) {
      continue;
    }
    if (field.is_repeated() || (field.has_presence() && !reflection.HasField(message, &field))) {
      continue;
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        CheckNumber(field, uint64_t{reflection.GetUInt32(message, &field)}, inner, reporter);
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        CheckNumber(field, reflection.GetUInt64(message, &field), inner, reporter);
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        CheckNumber(field, reflection.GetDouble(message, &field), inner, reporter);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        if (field.enum_type()->FindValueByNumber(reflection.GetEnumValue(message, &field)) ==
            nullptr) {
          // "unknown format" of a push_format.
          reporter->Error(
              inner, absl::StrCat("unknown ", field.name().substr(field.name().rfind('_') + 1)));
        }
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (field.full_name() != "monsoon.Job.model" && field.full_name() != "monsoon.Job.stop") {
          CheckRanges(reflection.GetMessage(message, &field), inner, reporter);
        }
        break;
      default:
        break;
    }
  }
}

}  // namespace monsoon
