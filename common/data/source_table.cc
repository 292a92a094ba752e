#include <string>

#include "absl/strings/str_cat.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

constexpr const SourceKind* kSources[] = {
    &kIdxSourceKind,       &kNpySourceKind,     &kNpzSourceKind,    &kCifar10SourceKind,
    &kTextSourceKind,      &kCsvSourceKind,     &kLibsvmSourceKind, &kImageFolderSourceKind,
    &kSyntheticSourceKind, &kJoinersSourceKind,
};

}  // namespace

const SourceKind* FindSource(Dataset::SourceCase source) {
  for (const SourceKind* const kind : kSources) {
    if (kind->source == source) {
      return kind;
    }
  }
  return nullptr;
}

std::string SourceNames() {
  std::string names;
  for (const SourceKind* const kind : kSources) {
    if (kind == &kJoinersSourceKind) {
      continue;  // for models of programs, which name no file
    }
    absl::StrAppend(&names, names.empty() ? "" : ", ", kind->name);
  }
  return names;
}

}  // namespace monsoon
