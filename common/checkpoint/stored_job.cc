#include "common/checkpoint/stored_job.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/data/access/data_access.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "google/protobuf/text_format.h"

namespace monsoon {
namespace {

using Names = std::vector<std::string>;

bool HasNamedClasses(const Dataset& data) { return data.has_csv() || data.has_image_folder(); }

Names NamesOf(const Dataset& data) {
  return Names(data.class_name().begin(), data.class_name().end());
}

// How the classes of the job's data are numbered without a list; empty: as numbers, or nobody
// knows.
Names NamesWithoutList(Job job) {
  job.mutable_train()->clear_class_name();
  job.mutable_train()->set_class_order(Dataset::BY_VALUE);
  absl::StatusOr<DatasetInfo> info =
      DescribeDataset(job.train(), TrainingContext(job, DataAccess::Own()));
  return info.ok() ? std::move(info->class_names) : Names();
}

}  // namespace

absl::StatusOr<Job> LoadStoredJob(const ShardCheckpoint& content, LoadOptions options,
                                  std::vector<Diagnostic>* warnings) {
  CHECK(options.contents == nullptr);
  // In place of a path; without a '/', so that relative paths are the working folder's.
  const std::string name =
      absl::StrCat("the job of ", content.create().job(), " generation ", content.generation());
  if (!content.context().has_job()) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, " is not in the checkpoint: no coordinator has made it; name a job file"));
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  CHECK(printer.PrintToString(content.context().job(), &text));
  options.contents = &text;
  options.stored = true;
  options.joined = IsJoined(content.context().job());
  return LoadJob(name, options, /*diagnostics=*/nullptr, warnings);
}

absl::Status KeepClassOrder(const ShardCheckpoint& content, Job* job) {
  const Dataset& before = content.context().job().train();
  if (!HasNamedClasses(job->train()) || (content.context().has_job() && !HasNamedClasses(before))) {
    return absl::OkStatus();  // its labels are numbers
  }
  Dataset* const train = job->mutable_train();
  const Names listed = NamesOf(*train);
  Names had = NamesOf(before);
  if (listed.empty()) {
    *train->mutable_class_name() = before.class_name();
    train->set_class_order(before.class_order());
    return absl::OkStatus();
  }
  if (had.empty() && before.class_order() == Dataset::BY_VALUE) {
    had = NamesWithoutList(*job);
  }
  if (had != listed && std::ranges::is_permutation(had, listed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train.class_name lists the classes in another order than ", content.create().job(),
        ", whose model goes on, has numbered them: ", absl::StrJoin(had, ", "),
        "; leave it out, or give them in that order"));
  }
  return absl::OkStatus();
}

}  // namespace monsoon
