#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "common/settings/number_rule.h"
#include "gtest/gtest.h"
#include "proto/chaos.pb.h"
#include "proto/cluster.pb.h"
#include "proto/job.pb.h"
#include "proto/setting.pb.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void Collect(const Descriptor& type, std::set<const Descriptor*>* types) {
  if (!types->insert(&type).second) {
    return;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    if (const Descriptor* const inner = type.field(i)->message_type(); inner != nullptr) {
      Collect(*inner, types);
    }
  }
}

// Of the messages that files are made of.
std::vector<const FieldDescriptor*> FieldsOfFiles() {
  std::set<const Descriptor*> types;
  for (const Descriptor* const file :
       {Job::descriptor(), Cluster::descriptor(), ChaosPlan::descriptor()}) {
    Collect(*file, &types);
  }
  std::vector<const FieldDescriptor*> fields;
  for (const Descriptor* const type : types) {
    for (int i = 0; i < type->field_count(); ++i) {
      fields.push_back(type->field(i));
    }
  }
  return fields;
}

bool IsNumber(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_MESSAGE:
    case FieldDescriptor::CPPTYPE_STRING:
      return false;
    default:
      return true;
  }
}

TEST(SettingsTest, EveryNumberHasARangeOrSaysWhyNot) {
  for (const FieldDescriptor* const field : FieldsOfFiles()) {
    EXPECT_EQ(field->options().HasExtension(setting), IsNumber(*field)) << field->full_name();
    const Setting& of_field = field->options().GetExtension(setting);
    const bool has_range =
        of_field.has_least() || of_field.has_above() || of_field.has_most() || of_field.has_below();
    EXPECT_FALSE(has_range && !of_field.unchecked().empty()) << field->full_name();
    EXPECT_FALSE(of_field.has_least() && of_field.has_above()) << field->full_name();
    EXPECT_FALSE(of_field.has_most() && of_field.has_below()) << field->full_name();
    // A whole number has an upper end, or it is said why none.
    EXPECT_TRUE(!IsNumber(*field) || has_range || !of_field.unchecked().empty() ||
                field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE)
        << field->full_name();
  }
}

TEST(SettingsTest, WhatStandsInIsInTheRange) {
  for (const FieldDescriptor* const field : FieldsOfFiles()) {
    const auto rule = RuleOf(*field);
    if (!rule) {
      continue;
    }
    EXPECT_LE(rule->least, rule->most) << field->full_name();
    if (rule->unset != 0) {
      EXPECT_EQ(NumberComplaint(*rule, rule->unset), "") << field->full_name();
      EXPECT_TRUE(field->has_presence() || NumberComplaint(*rule, 0.0).empty())
          << field->full_name() << ": 0 is refused where it means unset";
    }
  }
}

TEST(SettingsTest, OtherNamesLeadSomewhere) {
  std::set<std::string> seen;
  for (const FieldDescriptor* const field : FieldsOfFiles()) {
    const Descriptor* const own = field->containing_type();
    for (int i = 0; i < field->options().ExtensionSize(known_as); ++i) {
      const KnownAs& known = field->options().GetExtension(known_as, i);
      const Descriptor* in = own;
      if (!known.in().empty()) {
        in = own->file()->FindMessageTypeByName(known.in());
        ASSERT_NE(in, nullptr) << field->full_name() << ": there is no " << known.in();
        bool leads_here = false;
        for (int k = 0; k < in->field_count(); ++k) {
          leads_here |= in->field(k)->message_type() == own;
        }
        EXPECT_TRUE(leads_here) << field->full_name() << " is not in " << known.in();
      }
      const std::vector<std::string> names = absl::StrSplit(known.names(), ' ');
      for (const std::string& name : names) {
        EXPECT_EQ(name, absl::AsciiStrToLower(name)) << field->full_name();
        EXPECT_EQ(in->FindFieldByName(name), nullptr) << in->name() << " has a " << name;
        EXPECT_TRUE(seen.insert(in->full_name() + "." + name).second)
            << name << " has two meanings in " << in->name();
      }
    }
  }
  EXPECT_FALSE(seen.empty());
}

}  // namespace
}  // namespace monsoon
