// What sources of several files check alike.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/data/source_kind.h"

namespace monsoon {

// What `read` finds in one of a source's files, or an error under `field`.
template <typename Header>
absl::StatusOr<Header> ReadNamed(const std::string& field, const std::string& path,
                                 absl::StatusOr<Header> (*read)(const std::string&,
                                                                const DataAccess&),
                                 const DataAccess& access, Problems* problems) {
  if (path.empty()) {
    problems->Add(field, absl::InvalidArgumentError("no file is named"));
    return problems->first();
  }
  absl::StatusOr<Header> header = read(path, access);
  if (!header.ok()) {
    problems->Add(field, header.status());
  }
  return header;
}

// `what` is of each sample: "labels".
inline void CheckCounts(const std::string& field, const std::string& samples_path, uint64_t samples,
                        const std::string& path, uint64_t count, absl::string_view what,
                        Problems* problems) {
  if (samples != count) {
    problems->Add(field, absl::InvalidArgumentError(absl::StrCat(samples_path, " has ", samples,
                                                                 " samples, but ", path, " has ",
                                                                 count, " ", what)));
  }
}

}  // namespace monsoon
