#include "common/config/override.h"

#include <google/protobuf/descriptor.h>

#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/config/known_names.h"
#include "common/config/suggest.h"
#include "common/config/text_parser.h"
#include "common/config/unknown_field.h"

namespace monsoon {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

struct Step {
  const FieldDescriptor* field = nullptr;
  std::optional<int> index;
};

class Override {
 public:
  Override(const std::string& assignment, LocationMap* locations,
           std::vector<Diagnostic>* diagnostics)
      : label_(absl::StrCat("--set ", assignment)),
        locations_(locations),
        diagnostics_(diagnostics) {}

  bool Apply(const std::string& assignment, Message* message) {
    const size_t equals = assignment.find('=');
    const std::string path = OverridePath(assignment);
    if (equals == std::string::npos || path.empty()) {
      return Refuse("", "expected PATH=VALUE, as in downpour.n_fetch=4");
    }
    const std::string value(absl::StripAsciiWhitespace(assignment.substr(equals + 1)));
    const std::vector<std::string> steps = absl::StrSplit(path, '.');
    // Work on a copy: a refused override changes nothing.
    std::unique_ptr<Message> copy(message->New());
    copy->CopyFrom(*message);
    Message* at = copy.get();
    std::string so_far;
    for (size_t i = 0; i < steps.size(); ++i) {
      Step step;
      if (!ParseStep(steps[i], so_far, *at, &step)) {
        return false;
      }
      so_far = JoinPath(so_far, steps[i]);
      if (i + 1 == steps.size()) {
        if (!SetLeaf(step, so_far, value, at)) {
          return false;
        }
        break;
      }
      if (step.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        return Refuse(so_far, "it is a single value and has no fields");
      }
      if (!CheckIndex(step, so_far, *at)) {
        return false;
      }
      const Reflection* reflection = at->GetReflection();
      at = step.field->is_repeated()
               ? reflection->MutableRepeatedMessage(at, step.field, *step.index)
               : reflection->MutableMessage(at, step.field);
      locations_->Add(so_far, {label_, 0, 0});
    }
    message->CopyFrom(*copy);
    locations_->Replace(path, {label_, 0, 0});
    return true;
  }

 private:
  bool Refuse(const std::string& path, const std::string& message,
              const std::string& suggestion = "") {
    diagnostics_->push_back({label_, 0, 0, path, message, suggestion});
    return false;
  }

  bool ParseStep(const std::string& text, const std::string& before, const Message& message,
                 Step* step) {
    std::string name = text;
    if (const size_t bracket = text.find('['); bracket != std::string::npos) {
      name = text.substr(0, bracket);
      int index = 0;
      if (text.back() != ']' ||
          !absl::SimpleAtoi(text.substr(bracket + 1, text.size() - bracket - 2), &index) ||
          index < 0) {
        return Refuse(JoinPath(before, text), "an index is written as [0]");
      }
      step->index = index;
    }
    const google::protobuf::Descriptor& type = *message.GetDescriptor();
    step->field = type.FindFieldByName(name);
    if (step->field == nullptr) {
      const std::vector<std::string> names = FieldNames(type);
      const std::string nearest = NearestName(name, names);
      const std::string hint = HintForName(type, name);
      return Refuse(
          JoinPath(before, text), absl::StrCat(type.name(), " has no field \"", name, "\""),
          !hint.empty()     ? hint
          : nearest.empty() ? absl::StrCat("its fields are ", absl::StrJoin(names, ", "))
                            : absl::StrCat("did you mean \"", JoinPath(before, nearest), "\"?"));
    }
    return true;
  }

  bool CheckIndex(const Step& step, const std::string& path, const Message& message) {
    if (!step.field->is_repeated()) {
      return !step.index.has_value() || Refuse(path, "it is not a list and takes no index");
    }
    const int size = message.GetReflection()->FieldSize(message, step.field);
    if (!step.index.has_value()) {
      return Refuse(path, absl::StrCat("it is a list of ", size, ": name one by its index"),
                    absl::StrCat("write ", path, "[0]"));
    }
    if (*step.index >= size) {
      return Refuse(path, absl::StrCat("the list has ", size, " elements, the first is [0]"));
    }
    return true;
  }

  bool SetLeaf(const Step& step, const std::string& path, const std::string& value,
               Message* message) {
    const FieldDescriptor& field = *step.field;
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (step.index.has_value()) {
      if (!is_message) {
        return Refuse(path, "set the whole list",
                      absl::StrCat("write ", ParentPath(path), "=[VALUE, ...]"));
      }
      if (!CheckIndex(step, path, *message)) {
        return false;
      }
    }
    std::string text = value;
    if (text.empty() && field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      return Refuse(path, "it has no value");
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && !field.is_repeated() &&
        (text.empty() || (text[0] != '"' && text[0] != '\''))) {
      text = absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
    }
    std::unique_ptr<Message> parsed(message->New());
    LocationMap ignored;
    std::vector<Diagnostic> errors;
    ParseText({label_, absl::StrCat(field.name(), ": ", text), ""}, parsed.get(), &ignored,
              &errors);
    for (Diagnostic& error : errors) {
      error.line = error.column = 0;
      error.field = path;
      if (is_message && absl::ascii_isalpha(static_cast<unsigned char>(text[0]))) {
        error.suggestion = absl::StrCat("write --set='", path, "={ ", text, " }'");
      }
      diagnostics_->push_back(error);
    }
    if (!errors.empty()) {
      return false;
    }
    const Reflection* reflection = message->GetReflection();
    std::vector<const FieldDescriptor*> set;
    reflection->ListFields(*parsed, &set);
    for (const FieldDescriptor* const other : set) {
      if (other != &field) {
        return Refuse(path, absl::StrCat("the value sets \"", other->name(), "\" as well"),
                      "use a --set for each");
      }
    }
    if (step.index.has_value()) {
      if (reflection->FieldSize(*parsed, &field) != 1) {
        return Refuse(path, "expected one message in { }");
      }
      reflection->MutableRepeatedMessage(message, &field, *step.index)
          ->CopyFrom(reflection->GetRepeatedMessage(*parsed, &field, 0));
      return true;
    }
    reflection->ClearField(message, &field);
    message->MergeFrom(*parsed);
    return true;
  }

  std::string label_;
  LocationMap* locations_;
  std::vector<Diagnostic>* diagnostics_;
};

}  // namespace

std::string OverridePath(const std::string& assignment) {
  return std::string(absl::StripAsciiWhitespace(assignment.substr(0, assignment.find('='))));
}

bool ApplyOverride(const std::string& assignment, Message* message, LocationMap* locations,
                   std::vector<Diagnostic>* diagnostics) {
  return Override(assignment, locations, diagnostics).Apply(assignment, message);
}

absl::Status ApplyOverride(const std::string& assignment, Message* message) {
  LocationMap locations;
  std::vector<Diagnostic> diagnostics;
  ApplyOverride(assignment, message, &locations, &diagnostics);
  return DiagnosticsToStatus(diagnostics);
}

}  // namespace monsoon
