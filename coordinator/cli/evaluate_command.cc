#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/local_worker.h"
#include "coordinator/cli/model_commands.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace monsoon {
namespace {

// {"test_accuracy":..,"test_loss":..,"examples":..} as a sentence.
absl::StatusOr<std::string> ResultText(const std::string& json) {
  google::protobuf::Struct result;
  if (!google::protobuf::util::JsonStringToMessage(json, &result).ok()) {
    return absl::InternalError(absl::StrCat("the worker did not answer with JSON: ", json));
  }
  for (const char* key : {"test_accuracy", "test_loss", "examples"}) {
    if (!result.fields().contains(key)) {
      return absl::InternalError(absl::StrCat("the worker's answer lacks ", key, ": ", json));
    }
  }
  return absl::StrFormat("test accuracy %.4f, loss %.4f, %.0f examples",
                         result.fields().at("test_accuracy").number_value(),
                         result.fields().at("test_loss").number_value(),
                         result.fields().at("examples").number_value());
}

}  // namespace

int RunEvaluate(Invocation& call) {
  std::string model;
  std::string job;
  std::string bin_dir;
  bool json = false;
  // Accepted everywhere; the evaluation itself needs no cluster.
  const ClusterFlag cluster(&call);
  call.flags().Add("model", &model, "the .npz file, as export writes it");
  call.flags().Add("job", &job, "the job file, whose model and test set are used");
  call.flags().Add("bin_dir", &bin_dir, "where the worker's binary is, if not beside this one");
  call.flags().Add("json", &json, "one JSON object on the standard output");
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  if (model.empty() || job.empty()) {
    return call.Usage(model.empty() ? "--model=FILE is missing" : "--job=FILE is missing");
  }
  const auto ran =
      RunLocalWorker(call, bin_dir, "evaluation",
                     {"--evaluate", absl::StrCat("--model=", model), absl::StrCat("--job=", job)});
  if (const int* const code = std::get_if<int>(&ran)) {
    return *code;
  }
  const std::string& answer = std::get<std::string>(ran);
  const absl::StatusOr<std::string> text = ResultText(answer);
  if (!text.ok()) {
    return call.Fail(text.status());
  }
  call.Print(json ? answer : *text);
  return kExitOk;
}

}  // namespace monsoon
