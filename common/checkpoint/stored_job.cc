#include "common/checkpoint/stored_job.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "google/protobuf/text_format.h"

namespace monsoon {

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
  options.joined = IsJoined(content.context().job());
  return LoadJob(name, options, /*diagnostics=*/nullptr, warnings);
}

}  // namespace monsoon
