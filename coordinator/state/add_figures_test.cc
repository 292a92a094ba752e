#include "coordinator/state/add_figures.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "proto/figure.pb.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;

// A report with something in each field: numbers are `value`, texts say it.
ReplicaStats Full(uint32_t value) {
  ReplicaStats stats;
  const google::protobuf::Reflection& reflection = *stats.GetReflection();
  for (int i = 0; i < ReplicaStats::descriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *ReplicaStats::descriptor()->field(i);
    if (field.is_map()) {
      google::protobuf::Message* const entry = reflection.AddMessage(&stats, &field);
      const google::protobuf::Descriptor& type = *entry->GetDescriptor();
      if (type.map_key()->cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
        entry->GetReflection()->SetUInt32(entry, type.map_key(), 7);
      } else {
        entry->GetReflection()->SetUInt64(entry, type.map_key(), 7);
      }
      entry->GetReflection()->SetUInt64(entry, type.map_value(), value);
    } else if (field.is_repeated()) {
      reflection.AddString(&stats, &field, std::to_string(value));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      reflection.SetDouble(&stats, &field, value);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      reflection.SetString(&stats, &field, std::to_string(value));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
      reflection.SetUInt32(&stats, &field, value);
    } else {
      reflection.SetUInt64(&stats, &field, value);
    }
  }
  return stats;
}

// Numbers of the field, of a map its one entry's; "" where nothing is there.
std::string Of(const ReplicaStats& stats, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *stats.GetReflection();
  if (field.is_map()) {
    if (reflection.FieldSize(stats, &field) != 1) {
      return "";
    }
    const google::protobuf::Message& entry = reflection.GetRepeatedMessage(stats, &field, 0);
    return std::to_string(
        entry.GetReflection()->GetUInt64(entry, entry.GetDescriptor()->map_value()));
  }
  if (field.is_repeated()) {
    return reflection.FieldSize(stats, &field) == 0
               ? ""
               : reflection.GetRepeatedString(stats, &field, 0);
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return std::to_string(static_cast<int>(reflection.GetDouble(stats, &field)));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(stats, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return std::to_string(reflection.GetUInt32(stats, &field));
    default:
      return std::to_string(reflection.GetUInt64(stats, &field));
  }
}

TEST(AddFiguresTest, EachFieldSaysWhatBecomesOfItAndThatIsDone) {
  ReplicaStats sum;
  AddFigures(Full(5), &sum);
  AddFigures(Full(3), &sum);
  for (int i = 0; i < ReplicaStats::descriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *ReplicaStats::descriptor()->field(i);
    switch (field.options().GetExtension(figure)) {
      case Figure::SUM:
        EXPECT_EQ(Of(sum, field), "8") << field.name();
        break;
      case Figure::NEWEST:
        EXPECT_EQ(Of(sum, field), "3") << field.name();
        break;
      case Figure::OF_SESSION:
        EXPECT_THAT(Of(sum, field), ::testing::AnyOf("", "0")) << field.name();
        break;
      default:
        ADD_FAILURE() << field.name() << " does not say what becomes of it in sums";
    }
  }
}

TEST(AddFiguresTest, WhatAReportDoesNotSayStays) {
  ReplicaStats sum = Full(5);
  AddFigures(ReplicaStats(), &sum);
  EXPECT_EQ(sum.loss(), 5);
  EXPECT_EQ(sum.accuracy(), 5);
  EXPECT_EQ(sum.waits_for(), "") << "the newest report waits for nothing";
  EXPECT_EQ(sum.replicas(), 0u);
  EXPECT_EQ(sum.steps(), 5u);
}

TEST(AddFiguresTest, EveryTotalOfTheSameNameIsShown) {
  JobDescription::Counts counts;
  counts.set_restores(5);
  ShowTotals(Full(3), &counts);
  const google::protobuf::Descriptor& type = *JobDescription::Counts::descriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const bool is_shards = type.field(i)->name() == "restores";
    EXPECT_EQ(counts.GetReflection()->GetUInt64(counts, type.field(i)), is_shards ? 5u : 3u)
        << type.field(i)->name();
  }
}

TEST(AddFiguresTest, AllTotalsGrowWithEachOfThem) {
  EXPECT_EQ(AllTotals(ReplicaStats()), 0u);
  ReplicaStats stats;
  stats.set_replicas_lost(1);
  stats.set_replayed(2);
  stats.set_loss(0.5);
  stats.set_kept_bytes(7);
  EXPECT_EQ(AllTotals(stats), 3u);
}

}  // namespace
}  // namespace monsoon
