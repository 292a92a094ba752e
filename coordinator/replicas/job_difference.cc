#include "coordinator/replicas/job_difference.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/model/layout_difference.h"
#include "common/model/parameter_layout.h"
#include "proto/job.pb.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

struct Difference {
  std::string path;
  std::string here;
  std::string there;
};

constexpr char kNotSet[] = "not set";

std::string Join(const std::string& path, const std::string& field) {
  return path.empty() ? field : absl::StrCat(path, ".", field);
}

// Of a field that is no message; `index` of a repeated one, else -1.
std::string ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = index >= 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(repeated ? reflection.GetRepeatedUInt32(message, &field, index)
                                   : reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(repeated ? reflection.GetRepeatedUInt64(message, &field, index)
                                   : reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(repeated ? reflection.GetRepeatedDouble(message, &field, index)
                                   : reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (repeated ? reflection.GetRepeatedBool(message, &field, index)
                       : reflection.GetBool(message, &field))
                 ? "true"
                 : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return (repeated ? reflection.GetRepeatedEnum(message, &field, index)
                       : reflection.GetEnum(message, &field))
          ->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return absl::StrCat(
          "\"",
          absl::CEscape(repeated ? reflection.GetRepeatedString(message, &field, index)
                                 : reflection.GetString(message, &field)),
          "\"");
    default:
      return "another kind of value";
  }
}

bool HasPresence(const Message& message, const FieldDescriptor& field) {
  return !field.has_presence() || message.GetReflection()->HasField(message, &field);
}

std::string ChosenOf(const Message& message, const OneofDescriptor& oneof) {
  const FieldDescriptor* const chosen =
      message.GetReflection()->GetOneofFieldDescriptor(message, &oneof);
  return chosen == nullptr ? kNotSet : chosen->name();
}

std::optional<Difference> Compare(const Message& here, const Message& there,
                                  const std::string& path);

std::optional<Difference> CompareRepeated(const Message& here, const Message& there,
                                          const FieldDescriptor& field, const std::string& path) {
  const int size = here.GetReflection()->FieldSize(here, &field);
  const int other = there.GetReflection()->FieldSize(there, &field);
  for (int i = 0; i < std::min(size, other); ++i) {
    const std::string inner = absl::StrCat(path, "[", i, "]");
    if (field.message_type() != nullptr) {
      std::optional<Difference> difference =
          Compare(here.GetReflection()->GetRepeatedMessage(here, &field, i),
                  there.GetReflection()->GetRepeatedMessage(there, &field, i), inner);
      if (difference) {
        return difference;
      }
      continue;
    }
    std::string a = ValueOf(here, field, i);
    std::string b = ValueOf(there, field, i);
    if (a != b) {
      return Difference{inner, std::move(a), std::move(b)};
    }
  }
  if (size != other) {
    return Difference{absl::StrCat("the number of ", path), absl::StrCat(size),
                      absl::StrCat(other)};
  }
  return std::nullopt;
}

std::optional<Difference> CompareField(const Message& here, const Message& there,
                                       const FieldDescriptor& field, const std::string& path) {
  if (field.is_repeated()) {
    return CompareRepeated(here, there, field, path);
  }
  const bool is_message = field.message_type() != nullptr;
  if (is_message) {
    std::optional<Difference> difference =
        Compare(here.GetReflection()->GetMessage(here, &field),
                there.GetReflection()->GetMessage(there, &field), path);
    if (difference) {
      return difference;
    }
  }
  const bool set_here = HasPresence(here, field);
  const bool set_there = HasPresence(there, field);
  const auto value = [&](const Message& message, bool is_set) {
    return !is_set ? kNotSet : is_message ? "set" : ValueOf(message, field, -1);
  };
  std::string a = value(here, set_here);
  std::string b = value(there, set_there);
  return a == b ? std::nullopt : std::optional(Difference{path, std::move(a), std::move(b)});
}

std::optional<Difference> Compare(const Message& here, const Message& there,
                                  const std::string& path) {
  const Descriptor& type = *here.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.full_name() == "monsoon.Job.name") {
      continue;
    }
    if (const OneofDescriptor* const oneof = field.real_containing_oneof()) {
      std::string a = ChosenOf(here, *oneof);
      std::string b = ChosenOf(there, *oneof);
      if (a != b) {
        return Difference{path, std::move(a), std::move(b)};
      }
      if (a != field.name()) {
        continue;
      }
    }
    std::optional<Difference> difference =
        CompareField(here, there, field, Join(path, field.name()));
    if (difference) {
      return difference;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string JobDifference(const Job& here, const Job& there, const std::string& id) {
  const absl::StatusOr<ParameterLayout> a = ParameterLayout::Create(here.model());
  const absl::StatusOr<ParameterLayout> b = ParameterLayout::Create(there.model());
  if (a.ok() && b.ok()) {
    std::string tensor =
        FirstTensorDifference(*a, "the program's model", *b, absl::StrCat("that of job ", id));
    if (!tensor.empty()) {
      return tensor;
    }
  }
  const std::optional<Difference> difference = Compare(here, there, "");
  return !difference ? ""
                     : absl::StrCat(difference->path, " is ", difference->here, " here and ",
                                    difference->there, " in job ", id);
}

}  // namespace monsoon
