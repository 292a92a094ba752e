#include "common/config/text_parser.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/config/foreign_format.h"
#include "common/config/text_tokens.h"
#include "common/config/text_value.h"
#include "common/config/token_cursor.h"
#include "common/config/unknown_field.h"

namespace monsoon {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::io::Tokenizer;

char CloserOf(char opener) { return opener == '{' ? '}' : opener == '<' ? '>' : ']'; }

// One message being read, and what was seen in it.
struct Scope {
  Message* message;
  std::string path;
  const Scope* parent = nullptr;
  const TextToken* opener = nullptr;  // null: of the file
  int depth = 1;
  std::map<const FieldDescriptor*, int> first_line;
  std::map<const FieldDescriptor*, int> count;
  std::map<const OneofDescriptor*, std::pair<std::string, int>> chosen;

  const Descriptor& type() const { return *message->GetDescriptor(); }
};

class Parser : private TokenCursor {
 public:
  // `first_diagnostic`: how many there were before this file.
  Parser(const TextSource& source, size_t first_diagnostic, LocationMap* locations,
         std::vector<Diagnostic>* diagnostics)
      : TokenCursor(Tokenize(source.file, source.contents, diagnostics)),
        file_(source.file),
        locations_(locations),
        diagnostics_(diagnostics),
        first_diagnostic_(static_cast<ptrdiff_t>(first_diagnostic)) {}

  bool Parse(const std::string& root, Message* message) {
    Scope scope{message, root};
    if (AtEnd() && std::ssize(*diagnostics_) == first_diagnostic_) {
      SyntaxError(
          Peek(), root, "the file is empty",
          absl::StrCat("a ", absl::AsciiStrToLower(scope.type().name()), " file has the fields ",
                       absl::StrJoin(FieldNames(scope.type()), ", ")));
      diagnostics_->back().line = diagnostics_->back().column = 1;
    }
    ParseFields(scope);
    for (auto it = diagnostics_->begin() + first_diagnostic_; it != diagnostics_->end(); ++it) {
      structure_ok_ &= !it->field.empty();
    }
    return structure_ok_;
  }

 private:
  void Report(const TextToken& at, const std::string& field, const std::string& message,
              const std::string& suggestion = "") {
    if (reported_ > kMaxDiagnosticsPerFile) {
      return;
    }
    if (reported_++ < kMaxDiagnosticsPerFile) {
      diagnostics_->push_back({file_, at.line, at.column, field, message, suggestion});
    } else {
      diagnostics_->push_back(
          {file_, at.line, at.column, "", "too many errors; no more are told", ""});
    }
  }

  bool AnyDiagnostic(auto matches) const {
    return std::any_of(diagnostics_->begin() + first_diagnostic_, diagnostics_->end(), matches);
  }

  // The text is not what it seems: nothing after it can be trusted fully.
  void SyntaxError(const TextToken& at, const std::string& field, const std::string& message,
                   const std::string& suggestion = "") {
    structure_ok_ = false;
    // A second one on a line is most likely a consequence of the first.
    if (!AnyDiagnostic([&at](const Diagnostic& other) { return other.line == at.line; })) {
      Report(at, field, message, suggestion);
    }
  }

  void ParseFields(Scope& scope) {
    const TextToken* const opener = scope.opener;
    const size_t before = diagnostics_->size();
    while (true) {
      const TextToken& token = Peek();
      if (AtEnd()) {
        if (opener != nullptr) {
          // The fields that follow a forgotten brace are not misplaced.
          for (; !misplaced_.empty() && misplaced_.back() >= before; misplaced_.pop_back()) {
            diagnostics_->erase(diagnostics_->begin() + static_cast<ptrdiff_t>(misplaced_.back()));
          }
          SyntaxError(*opener, scope.path, absl::StrCat("'", opener->text, "' is never closed"),
                      absl::StrCat("add '", std::string(1, CloserOf(opener->text[0])), "'"));
        }
        return;
      }
      if (AtCloser()) {
        Take();
        if (opener == nullptr) {
          SyntaxError(token, "", absl::StrCat("'", token.text, "' closes nothing"));
          continue;
        }
        if (token.text[0] != CloserOf(opener->text[0])) {
          SyntaxError(token, scope.path,
                      absl::StrCat("'", opener->text, "' is closed by '", token.text, "'"));
        }
        return;
      }
      if (token.IsIdentifier()) {
        ParseField(scope);
        continue;
      }
      if (token.IsSymbol('[')) {
        SyntaxError(token, "", "extensions and Any are not supported here");
        SkipBalanced();
        SkipUnknown();
        continue;
      }
      SyntaxError(token, "",
                  absl::StrCat("expected the name of a field, found ", DescribeToken(token)));
      if (token.IsSymbol('{') || token.IsSymbol('<')) {
        SkipBalanced();
      } else {
        Take();
      }
    }
  }

  void ParseField(Scope& scope) {
    const TextToken& name = Take();
    const FieldDescriptor* field = FindField(scope, name);
    if (field == nullptr) {
      SkipUnknown();
    } else if (TakePlace(scope, *field, name)) {
      ParseValue(scope, *field, name);
    } else {
      // Refused as a whole; its own errors are told all the same.
      std::unique_ptr<Message> scratch(scope.message->New());
      Scope aside{scratch.get(), scope.path, scope.parent, nullptr, scope.depth};
      ParseValue(aside, *field, name);
    }
    if (!TryTake(',')) {
      TryTake(';');
    }
  }

  // Null: unknown, and told. A near miss is told too, then read as what was meant.
  const FieldDescriptor* FindField(const Scope& scope, const TextToken& name) {
    const Descriptor& type = scope.type();
    if (const FieldDescriptor* field = type.FindFieldByName(name.text); field != nullptr) {
      return field;
    }
    // A misreading of characters before it on the line explains the name.
    if (AnyDiagnostic([&name](const Diagnostic& other) {
          return other.line == name.line && (other.field.empty() || other.column == name.column);
        })) {
      return nullptr;
    }
    std::vector<const Descriptor*> around;
    for (const Scope* outer = scope.parent; outer != nullptr; outer = outer->parent) {
      around.push_back(&outer->type());
    }
    const UnknownField unknown = ExplainUnknownField(name.text, type, around);
    if (unknown.misplaced && reported_ < kMaxDiagnosticsPerFile) {
      misplaced_.push_back(diagnostics_->size());
    }
    Report(name, JoinPath(scope.path, name.text),
           absl::StrCat(type.name(), " has no field \"", name.text, "\""), unknown.suggestion);
    const bool free = unknown.meant != nullptr &&
                      (unknown.meant->is_repeated() || !scope.first_line.contains(unknown.meant));
    return free ? unknown.meant : nullptr;
  }

  // False: a second value of a singular field or of a oneof, which is told.
  bool TakePlace(Scope& scope, const FieldDescriptor& field, const TextToken& name) {
    if (field.is_repeated()) {
      return true;
    }
    const std::string path = JoinPath(scope.path, field.name());
    const auto [first, is_first] = scope.first_line.try_emplace(&field, name.line);
    if (!is_first) {
      Report(name, path, absl::StrCat("it is set twice, first on line ", first->second),
             "keep one of them");
      return false;
    }
    const OneofDescriptor* oneof = field.real_containing_oneof();
    if (oneof == nullptr) {
      return true;
    }
    const auto [chosen, is_only] =
        scope.chosen.try_emplace(oneof, std::make_pair(field.name(), name.line));
    if (!is_only) {
      Report(name, path,
             absl::StrCat("only one of ", absl::StrJoin(FieldNames(*oneof), ", "),
                          " may be set, and \"", chosen->second.first, "\" is on line ",
                          chosen->second.second),
             "keep one of them");
    }
    return is_only;
  }

  void ParseValue(Scope& scope, const FieldDescriptor& field, const TextToken& name) {
    const std::string path = JoinPath(scope.path, field.name());
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    const bool colon = TryTake(':');
    if (ValueIsMissing(name)) {
      Report(name, path, "it has no value");
      return;
    }
    if (!colon && !is_message && !AtOpener()) {
      Report(Peek(), path, absl::StrCat("expected ':' after \"", field.name(), "\""),
             absl::StrCat("write ", field.name(), ": ", DescribeToken(Peek())));
    }
    if (!Peek().IsSymbol('[')) {
      ParseElement(scope, field, name);
    } else if (field.is_repeated()) {
      if (!is_message) {
        Locate(path, name);
      }
      ParseList(scope, field, name);
    } else {
      Report(Peek(), path, "it takes one value, not a list", "leave out the brackets");
      SkipBalanced();
    }
  }

  // Nothing stands where the value should: the next field or the end follows.
  bool ValueIsMissing(const TextToken& name) const {
    const TextToken& token = Peek();
    if (AtEnd() || AtCloser()) {
      return true;
    }
    return token.IsIdentifier() && token.line > name.line &&
           (Peek(1).IsSymbol(':') || Peek(1).IsSymbol('{') || Peek(1).IsSymbol('<'));
  }

  void ParseList(Scope& scope, const FieldDescriptor& field, const TextToken& name) {
    const TextToken& opener = Take();
    if (TryTake(']')) {
      return;
    }
    while (true) {
      if (AtEnd() || AtCloser()) {
        SyntaxError(opener, JoinPath(scope.path, field.name()), "'[' is never closed", "add ']'");
        return;
      }
      if (Peek().IsSymbol(',') || Peek().IsSymbol(']')) {
        SyntaxError(Peek(), "", absl::StrCat("expected a value, found ", DescribeToken(Peek())));
      } else {
        ParseElement(scope, field, Peek());
      }
      if (TryTake(']')) {
        return;
      }
      if (!TryTake(',')) {
        SyntaxError(Peek(), "",
                    absl::StrCat("expected ',' or ']' in the list of ", field.name(), ", found ",
                                 DescribeToken(Peek())));
        if (Peek().IsIdentifier() && Peek().line > opener.line) {
          return;  // most likely the next field
        }
      }
    }
  }

  // One value: the only one, or one of a repeated field.
  void ParseElement(Scope& scope, const FieldDescriptor& field, const TextToken& name) {
    std::string path = JoinPath(scope.path, field.name());
    if (field.is_repeated()) {
      Locate(path, name);
      absl::StrAppend(&path, "[", scope.count[&field]++, "]");
    }
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      ParseScalar(scope, field, name, path);
    } else if (AtOpener()) {
      ParseSubmessage(scope, field, name, path);
    } else {
      Report(Peek(), path, absl::StrCat("expected a message, found ", DescribeToken(Peek())),
             absl::StrCat("write ", field.name(), " { ... }"));
      SkipValue();
      if (field.is_repeated()) {
        scope.message->GetReflection()->AddMessage(scope.message, &field);
      }
    }
  }

  void ParseSubmessage(Scope& scope, const FieldDescriptor& field, const TextToken& at,
                       const std::string& path) {
    Locate(path, at);
    if (scope.depth >= kMaxDepth) {
      SyntaxError(Peek(), path,
                  absl::StrCat("messages are nested deeper than ", kMaxDepth, " levels"));
      SkipBalanced();
      return;
    }
    const google::protobuf::Reflection* reflection = scope.message->GetReflection();
    Message* inner = field.is_repeated() ? reflection->AddMessage(scope.message, &field)
                                         : reflection->MutableMessage(scope.message, &field);
    Scope inner_scope{inner, path, &scope, &Take(), scope.depth + 1};
    ParseFields(inner_scope);
  }

  void ParseScalar(Scope& scope, const FieldDescriptor& field, const TextToken& name,
                   const std::string& path) {
    Locate(path, Peek());
    const TextToken first = Peek();
    const bool negative = TryTake('-');
    const TextToken& token = Peek();
    if (token.refused_by >= 0) {
      std::string& refused_field = (*diagnostics_)[token.refused_by].field;
      refused_field = refused_field.empty() ? path : refused_field;
      Take();
      return;
    }
    std::string decoded;
    const bool is_string = token.type == Tokenizer::TYPE_STRING && !negative;
    if (is_string && field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      // Literals side by side are one string.
      Tokenizer::ParseStringAppend(token.text, &decoded);
      for (size_t i = 1; Peek(i).type == Tokenizer::TYPE_STRING && Peek(i).refused_by < 0; ++i) {
        Tokenizer::ParseStringAppend(Peek(i).text, &decoded);
      }
    }
    const ValueError error =
        StoreScalar(token, negative, is_string ? &decoded : nullptr, field, scope.message);
    if (!error.message.empty()) {
      Report(first, path, error.message, error.suggestion);
    }
    SkipValue();
  }

  void SkipUnknown() {
    const bool colon = TryTake(':');
    if (AtOpener() || Peek().IsSymbol('[')) {
      SkipBalanced();
    } else if (colon) {
      TryTake('-');
      SkipValue();
    }
  }

  // Over one value of any kind.
  void SkipValue() {
    if (AtOpener() || Peek().IsSymbol('[')) {
      SkipBalanced();
      return;
    }
    if (AtEnd() || AtCloser() || Peek().IsSymbol(']')) {
      return;
    }
    const bool is_string = Take().type == Tokenizer::TYPE_STRING;
    while (is_string && Peek().type == Tokenizer::TYPE_STRING) {
      Take();
    }
  }

  // From an opening bracket to its closing one. Not recursive: the text decides the depth.
  void SkipBalanced() {
    const TextToken& opener = Peek();
    std::vector<char> closers;
    do {
      const TextToken& token = Take();
      if (token.IsSymbol('{') || token.IsSymbol('<') || token.IsSymbol('[')) {
        closers.push_back(CloserOf(token.text[0]));
        if (closers.size() == kMaxDepth) {
          Report(token, "", absl::StrCat("messages are nested deeper than ", kMaxDepth, " levels"));
        }
      } else if (token.IsSymbol('}') || token.IsSymbol('>') || token.IsSymbol(']')) {
        if (closers.back() != token.text[0]) {
          SyntaxError(token, "",
                      absl::StrCat("'", token.text, "' where '", std::string(1, closers.back()),
                                   "' should be"));
        }
        closers.pop_back();
      }
    } while (!closers.empty() && !AtEnd());
    if (!closers.empty()) {
      SyntaxError(opener, "", absl::StrCat("'", opener.text, "' is never closed"));
    }
  }

  void Locate(const std::string& path, const TextToken& token) {
    locations_->Add(path, {file_, token.line, token.column});
  }

  const std::string& file_;
  LocationMap* locations_;
  std::vector<Diagnostic>* diagnostics_;
  ptrdiff_t first_diagnostic_;
  size_t reported_ = 0;
  std::vector<size_t> misplaced_;  // diagnostics that move a field out, ascending
  bool structure_ok_ = true;
};

}  // namespace

bool ParseText(const TextSource& source, Message* message, LocationMap* locations,
               std::vector<Diagnostic>* diagnostics) {
  if (std::optional<Diagnostic> foreign = ForeignFormat(source.file, source.contents)) {
    diagnostics->push_back(*std::move(foreign));
    return false;
  }
  return Parser(source, diagnostics->size(), locations, diagnostics).Parse(source.root, message);
}

}  // namespace monsoon
