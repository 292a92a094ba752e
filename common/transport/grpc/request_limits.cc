#include "common/transport/grpc/request_limits.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status.h"
#include "google/protobuf/descriptor.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct TextLimit {
  absl::string_view field;  // its name in any message
  size_t bytes = 0;
};
// Names and the like; people's words have kMostTextBytes.
constexpr TextLimit kTextLimits[] = {
    {"client_id", 128}, {"cluster", 256}, {"host", 256},  {"by", 256},
    {"job", 256},       {"task", 256},    {"device", 64},
};

struct CountLimit {
  absl::string_view message;
  absl::string_view field;
  int most = 0;
};
// A worker tells some of each; thousands are no report that anybody reads.
constexpr CountLimit kCountLimits[] = {
    {"DataReport", "error", 256},
    {"DataReport", "warning", 256},
};

size_t MostBytes(const FieldDescriptor& field) {
  const auto* const row = std::ranges::find(kTextLimits, field.name(), &TextLimit::field);
  return row == std::end(kTextLimits) ? kMostTextBytes : row->bytes;
}

absl::Status CheckText(const FieldDescriptor& field, const std::string& text) {
  const size_t most = MostBytes(field);
  return text.size() <= most
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(field.name(), " has ", text.size(),
                                                       " bytes; at most ", most, " are taken"));
}

absl::Status CheckCount(const FieldDescriptor& field, int count) {
  for (const CountLimit& limit : kCountLimits) {
    if (field.containing_type()->name() == limit.message && field.name() == limit.field &&
        count > limit.most) {
      return absl::InvalidArgumentError(absl::StrCat(
          field.name(), " has ", count, " values; at most ", limit.most, " are taken"));
    }
  }
  return absl::OkStatus();
}

// Of one field that is set.
absl::Status CheckField(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const int count = field.is_repeated() ? reflection.FieldSize(message, &field) : 1;
  RETURN_IF_ERROR(CheckCount(field, count));
  for (int i = 0; i < count; ++i) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RETURN_IF_ERROR(CheckRequestLimits(field.is_repeated()
                                             ? reflection.GetRepeatedMessage(message, &field, i)
                                             : reflection.GetMessage(message, &field)));
    } else if (field.type() == FieldDescriptor::TYPE_STRING) {
      std::string scratch;
      RETURN_IF_ERROR(
          CheckText(field, field.is_repeated()
                               ? reflection.GetRepeatedStringReference(message, &field, i, &scratch)
                               : reflection.GetStringReference(message, &field, &scratch)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequestLimits(const Message& request) {
  if (request.GetDescriptor()->name() == "Job" && request.ByteSizeLong() > kMostJobMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the job has ", request.ByteSizeLong(),
                                                   " bytes; at most ", kMostJobMessageBytes,
                                                   " are taken"));
  }
  std::vector<const FieldDescriptor*> fields;
  request.GetReflection()->ListFields(request, &fields);
  for (const FieldDescriptor* const field : fields) {
    RETURN_IF_ERROR(CheckField(request, *field));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
