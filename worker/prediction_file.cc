#include "worker/prediction_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/file_replacement.h"
#include "common/base/status.h"
#include "common/npz/npy_header.h"

namespace monsoon {
namespace {

class NpyPredictions : public PredictionFile {
 public:
  NpyPredictions(FileReplacement file, uint64_t values) : file_(std::move(file)), values_(values) {}

  absl::Status Add(std::span<const float> probabilities) override {
    added_ += probabilities.size();
    return file_.Write(std::as_bytes(probabilities));
  }
  absl::Status Finish() override {
    CHECK_EQ(added_, values_);  // The head has said how many.
    return file_.Finish();
  }

 private:
  FileReplacement file_;
  const uint64_t values_;
  uint64_t added_ = 0;
};

class CsvPredictions : public PredictionFile {
 public:
  CsvPredictions(FileReplacement file, size_t classes)
      : file_(std::move(file)), classes_(classes) {}

  absl::Status Add(std::span<const float> probabilities) override {
    std::string lines;
    for (size_t at = 0; at < probabilities.size(); at += classes_) {
      const std::span<const float> row = probabilities.subspan(at, classes_);
      absl::StrAppend(&lines, next_++, ",", std::max_element(row.begin(), row.end()) - row.begin());
      for (const float probability : row) {
        absl::StrAppendFormat(&lines, ",%.9g", probability);
      }
      lines.push_back('\n');
    }
    return file_.Write(lines);
  }
  absl::Status Finish() override { return file_.Finish(); }

 private:
  FileReplacement file_;
  const size_t classes_;
  uint64_t next_ = 0;  // sample
};

}  // namespace

absl::StatusOr<std::unique_ptr<PredictionFile>> PredictionFile::Create(const std::string& path,
                                                                       uint64_t samples,
                                                                       size_t classes) {
  const bool csv = absl::EndsWith(path, ".csv");
  if (!csv && !absl::EndsWith(path, ".npy")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": predictions are written to a .npy or a .csv file"));
  }
  ASSIGN_OR_RETURN(FileReplacement file, FileReplacement::Create(path));
  if (!csv) {
    const uint64_t shape[] = {samples, classes};
    RETURN_IF_ERROR(file.Write(NpyFloatHead(shape)));
    return std::make_unique<NpyPredictions>(std::move(file), samples * classes);
  }
  std::string head = "index,label_predicted";
  for (size_t c = 0; c < classes; ++c) {
    absl::StrAppend(&head, ",p_", c);
  }
  RETURN_IF_ERROR(file.Write(absl::StrCat(head, "\n")));
  return std::make_unique<CsvPredictions>(std::move(file), classes);
}

}  // namespace monsoon
