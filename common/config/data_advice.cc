#include "common/config/data_advice.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/data/class_order.h"
#include "common/data/number_text.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

double ScaleOf(const Dataset& data) { return data.scale() == 0.0 ? 1.0 : data.scale(); }

bool IsShifted(const Dataset& data) { return data.mean() != 0.0 || ScaleOf(data) != 1.0; }

bool ReadsIds(const Job& job) {
  return std::ranges::any_of(job.model().layer(), &Layer::has_embedding);
}

std::string FieldOf(const std::string& set, const Dataset& data, const char* SourceKind::*what) {
  const SourceKind* const kind = FindSource(data.source_case());
  return kind == nullptr ? set : absl::StrCat(set, ".", kind->name, ".", kind->*what);
}

// Pictures in integers wider than bytes come as they are, where those in bytes are divided by 255.
void AdviseIntegers(const Job& job, const std::string& set, const Dataset& data,
                    const DatasetInfo& info, Reporter* reporter) {
  const bool picture = job.model().input_shape_size() > 1;
  const bool as_they_are = !data.raw() && !IsShifted(data) && !job.standardise();
  if (info.type == ElementType::kInteger && picture && as_they_are && !ReadsIds(job)) {
    reporter->Error(
        FieldOf(set, data, &SourceKind::samples),
        "the samples are integers wider than bytes, and taken as they are, not divided "
        "by what they can hold as bytes are",
        absl::StrFormat("%s.scale: %.9g makes 0 to 65535 (uint16) 0 to 1; raw: true says "
                        "that they are meant so",
                        set, 1.0 / 65535));
  }
}

void AdviseColumns(const std::string& set, const Dataset& data, const DatasetInfo& info,
                   Reporter* reporter) {
  if (!data.has_csv() || data.csv().feature_size() > 0) {
    return;
  }
  // As pandas calls a column without a name when it reads what to_csv() wrote.
  const auto index = std::ranges::find_if(info.feature_names, [](const std::string& name) {
    return absl::StartsWith(name, "Unnamed: ");
  });
  if (index != info.feature_names.end()) {
    reporter->Error(FieldOf(set, data, &SourceKind::samples),
                    absl::StrCat("the column ", Quoted(*index),
                                 " is a feature; mostly it is the number of the row, which tells "
                                 "nothing and misleads"),
                    "leave it out (pandas: to_csv(..., index=False)), or list the features: "
                    "feature: [...]");
  }
}

void AdviseClasses(const std::string& set, const Dataset& data, const DatasetInfo& info,
                   Reporter* reporter) {
  const std::string odd = data.class_name_size() > 0 ? "" : OddClassName(info.class_names);
  if (!odd.empty()) {
    reporter->Error(
        FieldOf(set, data, &SourceKind::labels),
        absl::StrCat("the classes are numbers, but for ", Quoted(odd),
                     ", which is a class of its own; so all are numbered in their order"),
        absl::StrCat("leave its samples out, or list the classes: ", set, ".class_name: [...]"));
  }
}

const char* TypeText(const DatasetInfo& info) {
  switch (info.type) {
    case ElementType::kUint8:
      return "bytes, divided by 255";
    case ElementType::kFloat32:
      return "float32 values as they are";
    case ElementType::kInteger:
      return "integers as they are";
  }
  return "";
}

// What training has found in values of one range means little for those of another.
void AdviseSameRange(const Job& job, const CheckedData& data, Reporter* reporter) {
  if (!job.has_train() || !job.has_test() || job.train().has_joiners()) {
    return;
  }
  const Dataset& train = job.train();
  const Dataset& test = job.test();
  const auto text = [](const Dataset& set) {
    return absl::StrFormat("mean %g, scale %g%s", set.mean(), ScaleOf(set),
                           set.raw() ? ", raw" : "");
  };
  const bool types_differ = data.train && data.test && data.train->type != data.test->type &&
                            data.train->sample_elements() != 0 && data.test->sample_elements() != 0;
  const bool settings_differ = train.mean() != test.mean() || ScaleOf(train) != ScaleOf(test) ||
                               (train.raw() != test.raw() && !types_differ);
  if (types_differ && !settings_differ && !job.standardise()) {
    reporter->Error("test",
                    absl::StrCat("its samples are ", TypeText(*data.test), ", those of train ",
                                 TypeText(*data.train)),
                    "see that both are in one range, or give mean and scale to one of them");
  } else if (settings_differ && !types_differ) {
    reporter->Error(
        "test",
        absl::StrCat("its samples are changed by ", text(test), ", those of train by ", text(train),
                     ": the model sees other values than it was trained "
                     "with"),
        "give both the same mean, scale and raw");
  }
}

}  // namespace

void AdviseData(const Job& job, const CheckedData& data, Reporter* reporter) {
  if (data.train) {
    AdviseIntegers(job, "train", job.train(), *data.train, reporter);
    AdviseColumns("train", job.train(), *data.train, reporter);
    AdviseClasses("train", job.train(), *data.train, reporter);
  }
  if (data.test) {
    AdviseIntegers(job, "test", job.test(), *data.test, reporter);
  }
  AdviseSameRange(job, data, reporter);
}

}  // namespace monsoon
