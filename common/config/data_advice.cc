#include "common/config/data_advice.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/data/class_order.h"
#include "common/data/data_context.h"
#include "common/data/first_ranges.h"
#include "common/data/number_text.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

constexpr uint64_t kSamplesLookedAt = 1000;
// A middle of so many times what a feature varies by is some hundreds of its deviations, where a
// batch job can no longer claim a minimum (docs/sandblaster.md).
constexpr double kFarFromZero = 100.0;
// Bytes of a picture differ by 255 at most, what people measure in one unit mostly by less than
// this.
constexpr double kFarApart = 1000.0;

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

// "value 3", or what its column is called.
std::string FeatureName(const DatasetInfo& info, size_t at) {
  return at < info.feature_names.size() ? Quoted(info.feature_names[at])
                                        : absl::StrCat("value ", at);
}

// `mean` is Dataset.mean.
void AdviseOffset(const std::vector<ValueRange>& ranges, const DatasetInfo& info, double mean,
                  const std::string& field, Reporter* reporter) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const ValueRange& range = ranges[i];
    const double middle = (range.least + range.most) / 2 - mean;
    if (range.span() > 0.0 && std::abs(middle) > kFarFromZero * range.span()) {
      reporter->Error(
          field,
          absl::StrFormat("%s lies far from 0 beside what it varies: %.9g to %.9g in the first "
                          "samples; float32 hardly tells it from a bias",
                          FeatureName(info, i), range.least, range.most),
          "standardise: true of the job takes each feature's mean away");
      return;
    }
  }
}

void AdviseScale(const std::vector<ValueRange>& ranges, const DatasetInfo& info,
                 const std::string& field, Reporter* reporter) {
  std::optional<size_t> least, most;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].span() == 0.0) {
      continue;
    }
    least = !least || ranges[i].span() < ranges[*least].span() ? i : *least;
    most = !most || ranges[i].span() > ranges[*most].span() ? i : *most;
  }
  if (most && ranges[*most].span() > kFarApart * ranges[*least].span()) {
    reporter->Error(
        field,
        absl::StrFormat("features differ in scale: %s varies by %.3g in the first samples, %s by "
                        "%.3g; steps that suit one are far too long or too short for the other",
                        FeatureName(info, *most), ranges[*most].span(), FeatureName(info, *least),
                        ranges[*least].span()),
        "standardise: true of the job divides each feature by its deviation");
  }
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

void AdviseFeatures(const Job& job, const CheckedData& data, const DataAccess& access,
                    Reporter* reporter) {
  // Of pictures and sequences no value is a feature by itself. A batch job's batch_norm measures
  // nothing.
  const bool normalised = job.model().layer_size() > 0 && job.model().layer(0).has_batch_norm() &&
                          !job.has_sandblaster();
  if (!data.train || job.standardise() || job.model().input_shape_size() != 1 || ReadsIds(job) ||
      normalised) {
    return;
  }
  const absl::StatusOr<std::vector<ValueRange>> ranges =
      FirstRanges(job.train(), TrainingContext(job, access), *data.train, kSamplesLookedAt);
  if (!ranges.ok() || ranges->empty()) {
    return;  // others tell what is wrong with the files
  }
  const std::string field = FieldOf("train", job.train(), &SourceKind::samples);
  AdviseOffset(*ranges, *data.train, job.train().mean(), field, reporter);
  AdviseScale(*ranges, *data.train, field, reporter);
}

}  // namespace monsoon
