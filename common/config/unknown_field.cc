#include "common/config/unknown_field.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/known_names.h"
#include "common/config/suggest.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;

constexpr int kMaxFieldsListed = 14;
// Up to so many wrong letters the name is read as the near one.
constexpr int kSureDistance = 2;

}  // namespace

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  return names;
}

std::vector<std::string> FieldNames(const google::protobuf::OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) {
    names.push_back(oneof.field(i)->name());
  }
  return names;
}

UnknownField ExplainUnknownField(const std::string& name, const Descriptor& type,
                                 const std::vector<const Descriptor*>& around) {
  for (const Descriptor* outer : around) {
    if (outer->FindFieldByName(name) != nullptr) {
      return {absl::StrCat("move it out: it is a field of ", outer->name()), nullptr, true};
    }
  }
  if (const std::string hint = HintForName(type, name); !hint.empty()) {
    return {hint, nullptr, false};
  }
  const std::string nearest = NearestName(name, FieldNames(type));
  const std::string did_you_mean = absl::StrCat("did you mean \"", nearest, "\"?");
  if (!nearest.empty() && EditDistance(name, nearest) <= kSureDistance) {
    return {did_you_mean, type.FindFieldByName(nearest), false};
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const Descriptor* inner = type.field(i)->message_type();
    if (inner != nullptr && inner->FindFieldByName(name) != nullptr) {
      return {absl::StrCat("write it inside \"", type.field(i)->name(), " { }\""), nullptr, false};
    }
  }
  if (!nearest.empty()) {
    return {did_you_mean, nullptr, false};
  }
  if (type.field_count() == 0) {
    return {"it has no fields", nullptr, false};
  }
  if (type.field_count() <= kMaxFieldsListed) {
    return {absl::StrCat("its fields are ", absl::StrJoin(FieldNames(type), ", ")), nullptr, false};
  }
  return {};
}

}  // namespace monsoon
