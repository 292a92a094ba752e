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
  const LocalRun evaluation(&call);
  if (const std::optional<int> code = call.Parse(0, 0)) {
    return *code;
  }
  if (const std::optional<int> code = evaluation.Check()) {
    return *code;
  }
  const auto ran = evaluation.Run("evaluation", "--evaluate", {});
  if (const int* const code = std::get_if<int>(&ran)) {
    return *code;
  }
  const std::string& answer = std::get<std::string>(ran);
  const absl::StatusOr<std::string> text = ResultText(answer);
  if (!text.ok()) {
    return call.Fail(text.status());
  }
  call.Print(evaluation.json() ? answer : *text);
  return kExitOk;
}

}  // namespace monsoon
