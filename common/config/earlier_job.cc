#include "common/config/earlier_job.h"

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/downpour.pb.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

void TakeOver(Downpour* downpour) {
  const Reflection& reflection = *downpour->GetReflection();
  if (reflection.GetUnknownFields(*downpour).empty()) {
    return;
  }
  std::string bytes;
  EarlierLocalSteps earlier;
  if (!reflection.GetUnknownFields(*downpour).SerializeToString(&bytes) ||
      !earlier.ParseFromString(bytes)) {
    return;
  }
  // What a later version has written stays unknown.
  reflection.MutableUnknownFields(downpour)->Swap(
      earlier.GetReflection()->MutableUnknownFields(&earlier));
  if (earlier.local_steps() == 0) {
    return;  // Without it the others meant nothing.
  }
  LocalSteps* const local = downpour->mutable_local();
  local->set_steps(earlier.local_steps());
  if (earlier.has_inner()) {
    *local->mutable_inner() = earlier.inner();
  }
  if (earlier.has_fragments()) {
    *local->mutable_fragments() = earlier.fragments();
  }
  local->set_landing_steps(earlier.landing_steps());
  local->set_mixing(earlier.mixing());
  local->set_dynamic(earlier.dynamic_local_steps());
  local->set_weight(earlier.weight());
  local->set_weight_reference(earlier.weight_reference());
}

}  // namespace

void TakeOverEarlierJobs(Message* message) {
  if (message->GetDescriptor() == Downpour::descriptor()) {
    TakeOver(static_cast<Downpour*>(message));
    return;
  }
  const Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    if (!field->is_repeated()) {
      TakeOverEarlierJobs(reflection.MutableMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
      TakeOverEarlierJobs(reflection.MutableRepeatedMessage(message, field, i));
    }
  }
}

}  // namespace monsoon
