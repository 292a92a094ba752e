#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/local_worker.h"
#include "coordinator/cli/model_commands.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace monsoon {
namespace {

// {"out":..,"samples":..,"classes":..} as a sentence.
absl::StatusOr<std::string> CountsText(const std::string& json) {
  google::protobuf::Struct counts;
  if (!google::protobuf::util::JsonStringToMessage(json, &counts).ok() ||
      !counts.fields().contains("out") || !counts.fields().contains("samples") ||
      !counts.fields().contains("classes")) {
    return absl::InternalError(absl::StrCat("the worker's answer is not understood: ", json));
  }
  const auto& fields = counts.fields();
  const bool values = fields.contains("holds") && fields.at("holds").string_value() == "values";
  const double count = fields.at("classes").number_value();
  const char* const what = count == 1 ? (values ? "value" : "probability, that of class 1")
                                      : (values ? "values" : "classes");
  return absl::StrFormat(
      "%s: %.0f samples, %.0f %s%s", fields.at("out").string_value(),
      fields.at("samples").number_value(), count, what,
      fields.contains("steps")
          ? absl::StrFormat(" at each of %.0f steps", fields.at("steps").number_value())
          : "");
}

}  // namespace

int RunPredict(Invocation& call) {
  std::string out;
  std::vector<std::string> data;
  const LocalRun prediction(&call);
  call.flags().Add("data", &data,
                   "test (the default) or train, the job's own sets, or samples of the kind that "
                   "the job reads (a file, a pattern or a folder), whose labels nobody looks at; "
                   "may be repeated");
  call.flags().Add("out", &out, "the .npy or .csv file to write; replaced at once or not at all");
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  if (const std::optional<int> code = prediction.Check()) {
    return *code;
  }
  if (out.empty()) {
    return call.Usage("--out=FILE is missing");
  }
  if (!absl::EndsWith(out, ".npy") && !absl::EndsWith(out, ".csv")) {
    return call.Usage(
        absl::StrCat("--out=", out, ": predictions are written to a .npy or a .csv file"));
  }
  std::vector<std::string> more = {absl::StrCat("--out=", out)};
  for (const std::string& name : data) {
    more.push_back(absl::StrCat("--data=", name));
  }
  const auto ran = prediction.Run("prediction", "--predict", more);
  if (const int* const code = std::get_if<int>(&ran)) {
    return *code;
  }
  const std::string& answer = std::get<std::string>(ran);
  const absl::StatusOr<std::string> text = CountsText(answer);
  if (!text.ok()) {
    return call.Fail(text.status());
  }
  call.Print(prediction.json() ? answer : *text);
  return kExitOk;
}

}  // namespace monsoon
