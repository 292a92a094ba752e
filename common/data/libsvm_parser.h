// The text format of LibSVM (Chang and Lin): "LABEL INDEX:VALUE INDEX:VALUE ... # comment", a
// sample a line; indices from 1, ascending; what is not named is 0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/data/access/quoting.h"

namespace monsoon {

struct LibsvmValue {
  uint32_t index = 0;  // from 0
  float value = 0;
};

// Thread safety: none.
class LibsvmParser {
 public:
  // A sample: its label as it is written, its values, ascending, and its line, from 1.
  using Visitor = absl::FunctionRef<absl::Status(
      absl::string_view label, std::span<const LibsvmValue> values, uint64_t line)>;

  // `path` is for messages. Indices are at most `features`.
  LibsvmParser(std::string path, uint32_t features, Quoting quoting)
      : path_(std::move(path)), features_(features), quoting_(quoting) {}

  // The next bytes of the file, cut anywhere; visits the lines that end in them, but those that
  // are blank or a comment. InvalidArgument with path and line, `visit`'s errors as they are.
  // After an error, no more calls.
  absl::Status Parse(absl::string_view piece, Visitor visit);
  // The file has ended; its last line needs no line break.
  absl::Status Finish(Visitor visit);

 private:
  absl::Status Line(absl::string_view text, Visitor visit);
  absl::Status Value(absl::string_view word);
  // "index 7", or where it is not quoted its place in the line.
  std::string IndexText(uint32_t index) const;
  absl::Status Error(absl::string_view message) const;

  const std::string path_;
  const uint32_t features_;
  const Quoting quoting_;
  uint64_t line_ = 1;
  std::string begun_;  // of the line that the last piece has cut
  std::vector<LibsvmValue> values_;
};

}  // namespace monsoon
