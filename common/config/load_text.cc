#include "common/config/load_text.h"

#include "common/config/location_map.h"
#include "common/config/text_parser.h"
#include "common/config/text_tokens.h"

namespace monsoon {

absl::Status LoadText(const std::string& path, google::protobuf::Message* message,
                      absl::FunctionRef<void(Reporter*)> check,
                      std::vector<Diagnostic>* diagnostics, const std::string* contents) {
  const auto nothing = [](Reporter*) {};
  return LoadText(path, message, check, {nothing, nullptr}, diagnostics, contents);
}

absl::Status LoadText(const std::string& path, google::protobuf::Message* message,
                      absl::FunctionRef<void(Reporter*)> check, Advice advice,
                      std::vector<Diagnostic>* diagnostics, const std::string* contents) {
  std::vector<Diagnostic> found;
  LocationMap locations;
  TextSource source{path, contents != nullptr ? *contents : "", ""};
  if ((contents != nullptr || ReadConfigFile(path, &source.contents, &found)) &&
      ParseText(source, message, &locations, &found)) {
    Reporter reporter(path, &locations, &found);
    check(&reporter);
    if (found.empty() && advice.warnings != nullptr) {
      Reporter warner(path, &locations, advice.warnings);
      advice.advise(&warner);
    }
  }
  SortDiagnostics(&found);
  if (diagnostics != nullptr) {
    diagnostics->insert(diagnostics->end(), found.begin(), found.end());
  }
  return DiagnosticsToStatus(found);
}

absl::Status CheckWithoutFile(absl::FunctionRef<void(Reporter*)> check) {
  const LocationMap no_locations;
  std::vector<Diagnostic> diagnostics;
  Reporter reporter("", &no_locations, &diagnostics);
  check(&reporter);
  return DiagnosticsToStatus(diagnostics);
}

}  // namespace monsoon
