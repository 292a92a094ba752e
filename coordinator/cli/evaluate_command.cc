#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/local_worker.h"
#include "coordinator/cli/model_commands.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

namespace monsoon {
namespace {

using ::google::protobuf::ListValue;
using ::google::protobuf::Value;

// A wider matrix does not fit a terminal.
constexpr int kMostShownClasses = 20;
constexpr size_t kMostNameWidth = 24;
constexpr int kCountWidth = 6;

std::string ShareText(const Value& share) {
  return share.kind_case() == Value::kNumberValue ? absl::StrFormat("%.4f", share.number_value())
                                                  : "-";
}

// A row a label: its name, how often it was taken for each class, precision and recall.
std::string ConfusionText(const ListValue& confusion, const ListValue& classes) {
  std::vector<std::string> names;
  size_t width = std::string_view("label").size();
  for (int c = 0; c < classes.values_size(); ++c) {
    const Value& name = classes.values(c).struct_value().fields().at("name");
    names.push_back(name.kind_case() == Value::kStringValue
                        ? absl::StrCat(c, " ", name.string_value().substr(0, kMostNameWidth))
                        : absl::StrCat(c));
    width = std::max(width, names.back().size());
  }
  std::string text = absl::StrFormat("%-*s", width, "label");
  for (int c = 0; c < classes.values_size(); ++c) {
    absl::StrAppendFormat(&text, " %*d", kCountWidth, c);
  }
  absl::StrAppend(&text, "  precision  recall  (columns: predicted)");
  for (int label = 0; label < confusion.values_size(); ++label) {
    absl::StrAppendFormat(&text, "\n%-*s", width, names[static_cast<size_t>(label)]);
    for (const Value& count : confusion.values(label).list_value().values()) {
      absl::StrAppendFormat(&text, " %*.0f", kCountWidth, count.number_value());
    }
    const auto& figures = classes.values(label).struct_value().fields();
    absl::StrAppendFormat(&text, "  %9s  %6s", ShareText(figures.at("precision")),
                          ShareText(figures.at("recall")));
  }
  return text;
}

// {"test_accuracy":..,"test_loss":..,"examples":..} as a sentence, with metrics and the confusion
// matrix below it.
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
  const auto& fields = result.fields();
  const bool judged = fields.at("test_accuracy").kind_case() == Value::kNumberValue;
  std::string text = absl::StrFormat(
      "%s%s %.4f, %.0f examples",
      judged ? absl::StrFormat("test accuracy %.4f, ", fields.at("test_accuracy").number_value())
             : "test ",
      "loss", fields.at("test_loss").number_value(), fields.at("examples").number_value());
  if (fields.contains("metrics")) {
    const auto& metrics = fields.at("metrics").struct_value().fields();
    for (const auto& [name, value] : std::map<std::string, Value>(metrics.begin(), metrics.end())) {
      absl::StrAppendFormat(&text, "\n%s %.6g", name, value.number_value());
    }
  }
  if (fields.contains("confusion") && fields.at("confusion").has_list_value() &&
      fields.at("confusion").list_value().values_size() <= kMostShownClasses) {
    absl::StrAppend(
        &text, "\n\n",
        ConfusionText(fields.at("confusion").list_value(), fields.at("classes").list_value()));
  }
  return text;
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
