#include "common/config/sets_check.h"

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"
#include "common/config/range_check.h"
#include "common/config/sample_check.h"
#include "common/config/sandblaster_check.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "common/data/sample_shape.h"
#include "common/data/scan_values.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

class SetsCheck {
 public:
  SetsCheck(const Job& job, const std::optional<ParameterLayout>& layout, DataCheck data_check,
            const DataAccess& access, Reporter* reporter)
      : job_(job), layout_(layout), data_check_(data_check), access_(access), reporter_(reporter) {}

  CheckedData Run() && {
    CheckPaths();
    CheckLayouts();
    if (data_check_ != DataCheck::kNothing) {
      CheckData();
    } else {
      CheckSources();
    }
    return std::move(data_);
  }

 private:
  void Error(const std::string& field, const std::string& message,
             const std::string& suggestion = "") {
    reporter_->Error(field, message, suggestion);
  }

  bool IsLookedAt(const Dataset& data) const {
    return data_check_ != DataCheck::kWithoutFiles || !HasFiles(data);
  }

  void CheckLayouts() {
    for (const auto& [field, data] :
         {std::pair<std::string, const Dataset*>{"train", &job_.train()},
          std::pair<std::string, const Dataset*>{"test", &job_.test()}}) {
      const SourceKind* const kind = FindSource(data->source_case());
      if (kind != nullptr && !kind->takes_layout && data->layout() != Dataset::MODEL_ORDER) {
        Error(field + ".layout", absl::StrCat(kind->name, " samples are made in the model's order"),
              "leave it out");
      }
    }
  }

  // Workers are told of them in messages, which hold UTF-8 alone.
  void CheckPaths() {
    for (const auto& [field, data] :
         {std::pair<std::string, const Dataset*>{"train", &job_.train()},
          std::pair<std::string, const Dataset*>{"test", &job_.test()}}) {
      Dataset visited = *data;
      VisitPaths(&visited, [&, &field = field](std::string* path) {
        if (FindInvalidUtf8(*path) != std::string::npos) {
          Error(field, absl::StrCat("the path ", ValidUtf8(*path), " is not UTF-8"),
                "rename its folders and files, or reach them by a link with another name");
        } else if (absl::StrContains(*path, "/~/")) {
          Error(field,
                absl::StrCat("the path ", *path, " has a folder called ~: no shell reads this"),
                "write the whole path");
        }
      });
    }
  }

  // What can be said of the data sets without their files.
  void CheckSources() {
    for (const auto& [field, has, data] :
         {std::tuple<std::string, bool, const Dataset*>{"train", job_.has_train(), &job_.train()},
          std::tuple<std::string, bool, const Dataset*>{"test", job_.has_test(), &job_.test()}}) {
      if (has && (data->source_case() == Dataset::SOURCE_NOT_SET ||
                  data->source_case() == Dataset::kSynthetic)) {
        Describe(field, *data);
      }
    }
  }

  DataContext ContextOf(const std::string& field) const {
    return field == "train" ? TrainingContext(job_, access_) : TestContext(job_, access_);
  }

  std::optional<DatasetInfo> Describe(const std::string& field, const Dataset& data) {
    std::vector<DatasetError> errors;
    absl::StatusOr<DatasetInfo> info = DescribeDataset(data, ContextOf(field), &errors);
    for (const DatasetError& error : errors) {
      Error(error.field.empty() ? field : JoinPath(field, error.field),
            std::string(error.status.message()));
    }
    return info.ok() ? std::optional(*std::move(info)) : std::nullopt;
  }

  void CheckData() {
    std::optional<DatasetInfo>& train = data_.train;
    std::optional<DatasetInfo>& test = data_.test;
    bool train_fits = true, test_fits = true;
    if (job_.has_train() && IsLookedAt(job_.train())) {
      train = CheckOne("train", job_.train(), &train_fits);
    }
    // Some are read as the training set is, of which errors would be told twice.
    const bool by_train = job_.test().has_csv() || job_.test().has_image_folder();
    if (job_.has_test() && IsLookedAt(job_.test()) && (train || !job_.has_train() || !by_train)) {
      test = CheckOne("test", job_.test(), &test_fits);
    }
    if (train) {
      CheckExamples(job_, train->examples, reporter_);
    }
    // What does not fit the model was told of each.
    if (train && test && train_fits && test_fits && train->sample_elements() != 0 &&
        test->sample_elements() != 0) {
      const absl::Status same = CheckSameSamples(train->sample_shape, job_.train().layout(),
                                                 test->sample_shape, job_.test().layout());
      if (!same.ok()) {
        Error("test", std::string(same.message()));
      }
    }
  }

  std::optional<DatasetInfo> CheckOne(const std::string& field, const Dataset& data, bool* fits) {
    const std::optional<DatasetInfo> info = Describe(field, data);
    if (!info || data.has_joiners() || job_.model().tensor_size() > 0) {
      return info;
    }
    const SourceKind& kind = *FindSource(data.source_case());
    const std::string samples = absl::StrCat(field, ".", kind.name, ".", kind.samples);
    if (data_check_ == DataCheck::kValues) {
      const absl::Status scanned = ScanValues(data, ContextOf(field), *info);
      if (!scanned.ok()) {
        Error(samples, std::string(scanned.message()));
      }
    }
    if (!layout_) {
      return info;
    }
    const SampleCheck check(job_, *layout_, reporter_);
    *fits = check.CheckShape(samples, data, *info);
    check.CheckIds(field, samples, data, *info);
    check.CheckAnswers(absl::StrCat(field, ".", kind.name, ".", kind.labels), *info,
                       [&] { return CountClasses(data, ContextOf(field)); });
    return info;
  }

  const Job& job_;
  const std::optional<ParameterLayout>& layout_;
  const DataCheck data_check_;
  const DataAccess& access_;
  Reporter* const reporter_;
  CheckedData data_;
};

}  // namespace

void CheckExamples(const Job& job, uint64_t examples, Reporter* reporter) {
  if (job.batch_size() > examples && IsInRange(job, "batch_size")) {
    reporter->Error("batch_size", absl::StrCat("a batch of ", job.batch_size(),
                                               " is larger than the training data of ", examples));
  }
  if (job.has_sandblaster()) {
    CheckSandblasterBatch(job, examples, reporter);
  }
}

CheckedData CheckSets(const Job& job, const std::optional<ParameterLayout>& layout,
                      DataCheck data_check, const DataAccess& access, Reporter* reporter) {
  return SetsCheck(job, layout, data_check, access, reporter).Run();
}

}  // namespace monsoon
