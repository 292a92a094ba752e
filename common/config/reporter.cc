#include "common/config/reporter.h"

namespace monsoon {

bool Reporter::Refused(const std::string& field) const {
  const bool missing = locations_->Find(field) == nullptr;
  for (size_t i = 0; i < syntax_errors_; ++i) {
    const std::string& refused = (*diagnostics_)[i].field;
    if (refused.empty()) {
      continue;
    }
    if (IsWithin(refused, field) || IsWithin(field, refused)) {
      return true;
    }
    // An unknown field may be the misspelt missing one beside it.
    if (missing && locations_->Find(refused) == nullptr &&
        ParentPath(refused) == ParentPath(field)) {
      return true;
    }
  }
  return false;
}

void Reporter::Error(const std::string& field, const std::string& message,
                     const std::string& suggestion) {
  ++errors_;
  if (Refused(field)) {
    return;
  }
  const Location location = locations_->Nearest(field, file_);
  diagnostics_->push_back(
      {location.file, location.line, location.column, field, message, suggestion});
}

}  // namespace monsoon
