#include "common/config/defaults.h"

#include <google/protobuf/descriptor.h>

#include <cstdint>

namespace monsoon {

void SetDefaults(std::initializer_list<DefaultNumber> defaults,
                 google::protobuf::Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  for (const DefaultNumber& number : defaults) {
    const auto* const field = message->GetDescriptor()->FindFieldByName(number.field);
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE) {
      if (reflection.GetDouble(*message, field) == 0.0) {
        reflection.SetDouble(message, field, number.value);
      }
    } else if (reflection.GetUInt32(*message, field) == 0) {
      reflection.SetUInt32(message, field, static_cast<uint32_t>(number.value));
    }
  }
}

}  // namespace monsoon
