#include "common/data/libsvm_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/file_prefix.h"
#include "common/data/libsvm_parser.h"
#include "common/data/number_text.h"

namespace monsoon {
namespace {

class LibsvmTableReader {
 public:
  LibsvmTableReader(const LibsvmSource& source, const TableOptions& options)
      : source_(source), options_(options) {
    table_.features = source.features();
    table_.targets_per_example = source.regression() ? 1 : 0;
  }

  absl::Status Read(const std::string& path) {
    path_ = path;
    LibsvmParser parser(path, source_.features(), options_.access.quoting);
    const auto visit = [this](absl::string_view label, std::span<const LibsvmValue> values,
                              uint64_t line) { return Sample(label, values, line); };
    RETURN_IF_ERROR(ReadTextPieces(path, options_.access.roots, [&](absl::string_view piece) {
      return parser.Parse(piece, visit);
    }));
    return parser.Finish(visit);
  }

  absl::StatusOr<SampleTable> Finish() && {
    if (table_.examples == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": there are no samples"));
    }
    return std::move(table_);
  }

 private:
  absl::Status Sample(absl::string_view label, std::span<const LibsvmValue> values, uint64_t line) {
    if (options_.limit != 0 && table_.examples == options_.limit) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Label(label, line));
    for (const LibsvmValue& value : values) {
      if (const absl::Status status = options_.CheckFeature(value.value); !status.ok()) {
        return Error(line, absl::StrCat("feature ", value.index + 1, ": ", status.message()));
      }
    }
    if (options_.keep_values) {
      const size_t begin = table_.values.size();
      table_.values.resize(begin + table_.features);
      for (const LibsvmValue& value : values) {
        table_.values[begin + value.index] = value.value;
      }
    }
    ++table_.examples;
    return absl::OkStatus();
  }

  absl::Status Error(uint64_t line, absl::string_view message) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", message));
  }

  absl::Status Label(absl::string_view text, uint64_t line) {
    const absl::StatusOr<float> number =
        ParseFloat(text.substr(!text.empty() && text[0] == '+' ? 1 : 0), options_.access.quoting);
    if (!number.ok()) {
      return Error(line, absl::StrCat("label ", number.status().message(),
                                      absl::StrContains(text, ",") ? " (one label a sample)" : ""));
    }
    if (source_.regression()) {
      if (const absl::Status status = options_.CheckTarget(*number); !status.ok()) {
        return Error(line, absl::StrCat("target ", status.message()));
      }
      table_.targets.push_back(*number);
      return absl::OkStatus();
    }
    // A float32 tells all whole numbers up to there apart.
    constexpr float kEnd = 1 << 24;
    if (*number != std::floor(*number) || *number < -1 || *number >= kEnd) {
      return Error(line, absl::StrCat("label ", Content(text, options_.access.quoting),
                                      " is no class: -1, or a whole number "
                                      "from 0 (regression: true takes any)"));
    }
    const bool negative = *number == -1;
    // Where -1 and 1 are the two classes, another number would be one of them by chance.
    if (negative && minus_line_ == 0) {
      minus_line_ = line;
      minus_path_ = path_;
    } else if (!negative && *number != 1 && other_line_ == 0) {
      other_line_ = line;
      other_path_ = path_;
    }
    if (minus_line_ != 0 && other_line_ != 0) {
      return Error(line, absl::StrCat("label ", Content(text, options_.access.quoting),
                                      " beside that of ", negative ? other_path_ : minus_path_, ":",
                                      negative ? other_line_ : minus_line_,
                                      ": classes are -1 and 1, or whole numbers from 0"));
    }
    const auto label = static_cast<uint32_t>(negative ? 0 : *number);
    table_.labels.push_back(label);
    table_.classes = std::max(table_.classes, label + 1);
    return absl::OkStatus();
  }

  const LibsvmSource& source_;
  const TableOptions& options_;
  std::string path_;
  SampleTable table_;
  uint64_t minus_line_ = 0;  // of the first label of -1
  std::string minus_path_;
  uint64_t other_line_ = 0;  // of the first that is neither -1 nor 1
  std::string other_path_;
};

}  // namespace

absl::StatusOr<SampleTable> ReadLibsvmTable(const LibsvmSource& source,
                                            const std::vector<std::string>& files,
                                            const TableOptions& options) {
  LibsvmTableReader reader(source, options);
  for (const std::string& file : files) {
    RETURN_IF_ERROR(reader.Read(file));
  }
  return std::move(reader).Finish();
}

}  // namespace monsoon
