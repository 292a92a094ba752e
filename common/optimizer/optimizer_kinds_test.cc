#include "common/optimizer/optimizer_kinds.h"

#include <google/protobuf/descriptor.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/model/table_info.h"
#include "common/optimizer/example_optimizers.h"
#include "common/optimizer/make_kernel.h"
#include "common/optimizer/optimizer.h"
#include "common/optimizer/optimizer_rules.h"
#include "common/settings/number_rule.h"
#include "common/testing/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace monsoon {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::monsoon::testing::ExampleOptimizers;
using ::monsoon::testing::Make;
using ::monsoon::testing::Parse;
using ::monsoon::testing::StatusIs;
using ::testing::HasSubstr;

const Descriptor& MessageOf(const OptimizerKind& kind) {
  return *Optimizer::descriptor()->FindFieldByNumber(kind.kind)->message_type();
}

TEST(OptimizerKindsTest, EveryKindOfTheProtoHasARow) {
  const auto& kinds = *Optimizer::descriptor()->FindOneofByName("kind");
  std::set<int> rows;
  for (const OptimizerKind& kind : Optimizers()) {
    EXPECT_TRUE(rows.insert(kind.kind).second) << kind.name() << " has two rows";
    EXPECT_NE(kind.slots, nullptr) << kind.name();
    EXPECT_NE(kind.step, nullptr) << kind.name();
  }
  for (int i = 0; i < kinds.field_count(); ++i) {
    EXPECT_EQ(rows.count(kinds.field(i)->number()), 1u)
        << kinds.field(i)->name() << " has no row in kOptimizers";
  }
  EXPECT_EQ(rows.size(), static_cast<size_t>(kinds.field_count()));
}

TEST(OptimizerKindsTest, EveryNumberHasARule) {
  std::vector<const Descriptor*> types = {Average::descriptor(), RowAdagrad::descriptor()};
  for (const OptimizerKind& kind : Optimizers()) {
    types.push_back(&MessageOf(kind));
    ASSERT_NE(MessageOf(kind).FindFieldByName("rate"), nullptr) << kind.name();
  }
  for (const Descriptor* const type : types) {
    std::map<std::string, int> rules;
    for (const NumberRule& rule : NumberRules(*type)) {
      ++rules[std::string(rule.field)];
      EXPECT_LE(rule.least, rule.most) << type->name() << "." << rule.field;
      const FieldDescriptor* const field = type->FindFieldByName(std::string(rule.field));
      ASSERT_NE(field, nullptr) << type->name() << " has no " << rule.field;
      if (rule.unset != 0) {  // what it is cannot be told from 0 otherwise
        EXPECT_TRUE(field->has_presence() || rule.zero_is_unset) << field->full_name();
        EXPECT_EQ(NumberComplaint(rule, rule.unset), "") << field->full_name();
      }
    }
    for (int i = 0; i < type->field_count(); ++i) {
      EXPECT_EQ(rules[type->field(i)->name()], 1) << type->field(i)->full_name();
    }
  }
}

TEST(OptimizerKindsTest, FieldsThatRowsNameAreThere) {
  for (const OptimizerKind& kind : Optimizers()) {
    const Descriptor& message = MessageOf(kind);
    const bool decays = message.FindFieldByName("weight_decay") != nullptr;
    EXPECT_EQ(decays, kind.own_decay != nullptr) << kind.name();
    if (kind.own_decay != nullptr) {
      EXPECT_TRUE(absl::StartsWith(kind.own_decay, absl::StrCat(kind.name(), " {")));
      EXPECT_OK(OptimizerKernel::Create(Parse(kind.own_decay)));
    }
    if (kind.initial_state != nullptr) {
      EXPECT_NE(message.FindFieldByName(kind.initial_state), nullptr) << kind.name();
    }
  }
}

TEST(OptimizerKindsTest, TheExamplesHaveEveryKindAndEveryRule) {
  std::set<Optimizer::KindCase> kinds;
  std::set<OptimizerRule> rules;
  for (const std::string& text : ExampleOptimizers()) {
    kinds.insert(Parse(text).kind_case());
    const auto kernel = Make(text);
    EXPECT_EQ(kernel->state_slots(), OptimizerStateSlots(Parse(text))) << text;
    for (uint64_t k = 0; k < 4; ++k) {
      const auto step = kernel->StepAt(k);
      ASSERT_TRUE(step.has_value()) << text;
      EXPECT_EQ(RuleSlots(step->rule), kernel->state_slots()) << text << ", push " << k;
      rules.insert(step->rule);
    }
  }
  for (const OptimizerKind& kind : Optimizers()) {
    EXPECT_EQ(kinds.count(kind.kind), 1u) << kind.name() << " is no example";
  }
  EXPECT_EQ(rules.size(), static_cast<size_t>(kOptimizerRules));
}

// What is below 1 in double and 1 in float32 would never forget.
TEST(OptimizerKindsTest, SharesAreThoseOfFloat32) {
  for (const OptimizerKind& kind : Optimizers()) {
    for (const NumberRule& rule : NumberRules(MessageOf(kind))) {
      if (rule.most < 1 && rule.least == 0) {
        const std::string text =
            absl::StrCat(kind.name(), " { rate: 1 ", rule.field, ": 0.99999999999 }");
        EXPECT_THAT(OptimizerKernel::Create(Parse(text)),
                    StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(rule.field)))
            << text;
      }
    }
  }
}

TEST(OptimizerKindsTest, WithoutDecayNothingDecays) {
  for (const std::string& text : ExampleOptimizers()) {
    const Optimizer optimizer = Parse(text);
    EXPECT_EQ(Decays(optimizer), FindKind(optimizer)->own_decay != nullptr) << text;
    const auto step = *OptimizerKernel::Create(WithoutDecay(optimizer));
    EXPECT_EQ(step->StepAt(0)->decay, 0.0f) << text;
  }
  const Optimizer bare = WithoutDecay(Parse("sgd { rate: 1 } weight_decay: 0.5"));
  EXPECT_EQ(bare.weight_decay(), 0.0);
  EXPECT_FALSE(Decays(bare));
}

TEST(OptimizerKindsTest, NamesAreThoseOfJobFiles) {
  EXPECT_THAT(OptimizerNames("or"), HasSubstr("sgd, momentum, nesterov, adagrad, "));
  const std::string last(Optimizers().back().name());
  EXPECT_TRUE(absl::EndsWith(OptimizerNames("or"), absl::StrCat(" or ", last)));
  EXPECT_EQ(OptimizerName(Parse("adam_w { } average { }")), "adam_w with average");
  EXPECT_EQ(OptimizerName(Optimizer()), "none");
}

TEST(OptimizerKindsTest, RowsHaveTheDefaultsOfTheModel) {
  Model model;
  model.add_tensor()->set_name("t");
  Table* const table = model.add_table();
  table->set_name("rows");
  table->set_rows(10);
  table->set_columns(4);
  ASSERT_OK_AND_ASSIGN(const auto tables, ReadTables(model));
  const RowAdagrad& filled = tables[0].optimizer;
  for (const NumberRule& rule : NumberRules(*RowAdagrad::descriptor())) {
    const FieldDescriptor& field =
        *RowAdagrad::descriptor()->FindFieldByName(std::string(rule.field));
    EXPECT_EQ(filled.GetReflection()->GetDouble(filled, &field), rule.unset) << rule.field;
  }
}

// By title, the column of what a shard keeps: "1", "1, 2 with ...".
std::map<std::string, std::string> RowsOfTheDocs() {
  std::ifstream file("docs/downpour.md");
  std::map<std::string, std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    inside = absl::StartsWith(line, "| optimizer |") || (inside && absl::StartsWith(line, "|"));
    std::istringstream cells(inside ? line : "");
    std::string empty, title, python, state;
    if (std::getline(cells, empty, '|') && std::getline(cells, title, '|') &&
        std::getline(cells, python, '|') && std::getline(cells, state, '|')) {
      rows[title.substr(1, title.size() - 2)] = state;
    }
  }
  return rows;
}

TEST(OptimizerKindsTest, TheDocsHaveARowForEachKind) {
  const std::map<std::string, std::string> rows = RowsOfTheDocs();
  for (const OptimizerKind& kind : Optimizers()) {
    EXPECT_EQ(rows.count(kind.title), 1u) << "docs/downpour.md has no row of " << kind.title;
  }
  for (const std::string& text : ExampleOptimizers()) {
    const Optimizer optimizer = Parse(text);
    const std::string slots = absl::StrCat(OptimizerStateSlots(optimizer));
    const auto row = rows.find(FindKind(optimizer)->title);
    EXPECT_TRUE(row != rows.end() && absl::StrContains(row->second, slots))
        << "docs/downpour.md: " << text << " keeps " << slots;
  }
}

}  // namespace
}  // namespace monsoon
