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
  return absl::StrFormat("%s: %.0f samples, %.0f classes", counts.fields().at("out").string_value(),
                         counts.fields().at("samples").number_value(),
                         counts.fields().at("classes").number_value());
}

}  // namespace

int RunPredict(Invocation& call) {
  std::string model;
  std::string job;
  std::string out;
  std::string bin_dir;
  std::vector<std::string> data;
  bool json = false;
  // Accepted everywhere; no cluster is needed.
  const ClusterFlag cluster(&call);
  call.flags().Add("model", &model, "the .npz file, as export writes it");
  call.flags().Add("job", &job, "the job file, whose model and treatment of data are used");
  call.flags().Add("data", &data,
                   "test (the default) or train, the job's own sets, or a file of samples without "
                   "labels (.npy, else IDX); may be repeated");
  call.flags().Add("out", &out, "the .npy or .csv file to write; replaced at once or not at all");
  call.flags().Add("bin_dir", &bin_dir, "where the worker's binary is, if not beside this one");
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  for (const auto& [value, flag] : {std::pair(&model, "model"), {&job, "job"}, {&out, "out"}}) {
    if (value->empty()) {
      return call.Usage(absl::StrCat("--", flag, "=FILE is missing"));
    }
  }
  if (!absl::EndsWith(out, ".npy") && !absl::EndsWith(out, ".csv")) {
    return call.Usage(
        absl::StrCat("--out=", out, ": predictions are written to a .npy or a .csv file"));
  }
  std::vector<std::string> arguments = {"--predict", absl::StrCat("--model=", model),
                                        absl::StrCat("--job=", job), absl::StrCat("--out=", out)};
  for (const std::string& name : data) {
    arguments.push_back(absl::StrCat("--data=", name));
  }
  const auto ran = RunLocalWorker(call, bin_dir, "prediction", std::move(arguments));
  if (const int* const code = std::get_if<int>(&ran)) {
    return *code;
  }
  const std::string& answer = std::get<std::string>(ran);
  const absl::StatusOr<std::string> text = CountsText(answer);
  if (!text.ok()) {
    return call.Fail(text.status());
  }
  call.Print(json ? answer : *text);
  return kExitOk;
}

}  // namespace monsoon
