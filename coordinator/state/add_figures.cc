#include "coordinator/state/add_figures.h"

#include <cstdint>

#include "google/protobuf/descriptor.h"
#include "proto/figure.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

bool IsTotal(const FieldDescriptor& field) {
  return !field.is_repeated() && field.options().GetExtension(figure) == Figure::SUM;
}

uint64_t TotalOf(const FieldDescriptor& field, const ReplicaStats& stats) {
  const Reflection& reflection = *stats.GetReflection();
  return field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ? reflection.GetUInt32(stats, &field)
                                                             : reflection.GetUInt64(stats, &field);
}

void AddTotal(const FieldDescriptor& field, const ReplicaStats& stats, ReplicaStats* sum) {
  const Reflection& reflection = *sum->GetReflection();
  const uint64_t total = TotalOf(field, *sum) + TotalOf(field, stats);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    reflection.SetUInt32(sum, &field, static_cast<uint32_t>(total));
  } else {
    reflection.SetUInt64(sum, &field, total);
  }
}

void TakeNewest(const FieldDescriptor& field, const ReplicaStats& stats, ReplicaStats* sum) {
  const Reflection& reflection = *sum->GetReflection();
  if (field.has_presence() && !reflection.HasField(stats, &field)) {
    return;  // The report does not say it.
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(sum, &field, reflection.GetDouble(stats, &field));
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(sum, &field, reflection.GetString(stats, &field));
      break;
    default:
      reflection.SetUInt32(sum, &field, reflection.GetUInt32(stats, &field));
      break;
  }
}

// Entries of maps, which reflection reaches only one by one.
void AddHistograms(const ReplicaStats& stats, ReplicaStats* sum) {
  const auto add = [](auto* into, const auto& from) {
    for (const auto& [key, count] : from) {
      (*into)[key] += count;
    }
  };
  add(sum->mutable_staleness(), stats.staleness());
  add(sum->mutable_fetch_width(), stats.fetch_width());
  add(sum->mutable_fetch_latency(), stats.fetch_latency());
  add(sum->mutable_push_latency(), stats.push_latency());
  add(sum->mutable_step_latency(), stats.step_latency());
}

}  // namespace

void AddFigures(const ReplicaStats& stats, ReplicaStats* sum) {
  const google::protobuf::Descriptor& type = *ReplicaStats::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_repeated()) {
      continue;
    }
    switch (field.options().GetExtension(figure)) {
      case Figure::SUM:
        AddTotal(field, stats, sum);
        break;
      case Figure::NEWEST:
        TakeNewest(field, stats, sum);
        break;
      default:
        break;
    }
  }
  AddHistograms(stats, sum);
}

uint64_t AllTotals(const ReplicaStats& stats) {
  const google::protobuf::Descriptor& type = *ReplicaStats::descriptor();
  uint64_t all = 0;
  for (int i = 0; i < type.field_count(); ++i) {
    all += IsTotal(*type.field(i)) ? TotalOf(*type.field(i), stats) : 0;
  }
  return all;
}

void ShowTotals(const ReplicaStats& stats, google::protobuf::Message* shown) {
  const google::protobuf::Descriptor& type = *shown->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor* const total =
        ReplicaStats::descriptor()->FindFieldByName(type.field(i)->name());
    if (total != nullptr && IsTotal(*total)) {
      shown->GetReflection()->SetUInt64(shown, type.field(i), TotalOf(*total, stats));
    }
  }
}

}  // namespace monsoon
