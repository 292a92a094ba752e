#include "worker/prediction_file.h"

#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/base/file_replacement.h"
#include "common/base/status.h"
#include "common/npz/npy_header.h"

namespace monsoon {
namespace {

class NpyPredictions : public PredictionFile {
 public:
  NpyPredictions(FileReplacement file, uint64_t values) : file_(std::move(file)), values_(values) {}

  absl::Status Add(const PredictionSpans& predictions) override {
    added_ += predictions.values.size();
    return file_.Write(std::as_bytes(predictions.values));
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

// As RFC 4180 has it.
std::string CsvField(const std::string& text) {
  return text.find_first_of(",\"\r\n") == std::string::npos
             ? text
             : absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

class CsvPredictions : public PredictionFile {
 public:
  CsvPredictions(FileReplacement file, const LossPlan& loss, std::vector<std::string> names)
      : file_(std::move(file)), loss_(loss), names_(std::move(names)) {}

  static std::string Head(const LossPlan& loss) {
    std::string head = loss.steps > 1 ? "index,step" : "index";
    absl::StrAppend(&head, HasLabel(loss) ? ",label_predicted" : "");
    const bool values = PredictionKindOf(loss) == PredictionKind::kValues;
    for (size_t c = 0; c < loss.outputs; ++c) {
      absl::StrAppend(&head, values ? ",value_" : ",p_", loss.is_yes_or_no() ? 1 : c);
    }
    return head + "\n";
  }

  absl::Status Add(const PredictionSpans& predictions) override {
    CHECK_EQ(predictions.labels.size() * loss_.outputs, predictions.values.size());
    std::string lines;
    for (size_t i = 0; i < predictions.labels.size(); ++i, ++next_) {
      const auto row = predictions.values.subspan(i * loss_.outputs, loss_.outputs);
      absl::StrAppend(&lines, next_ / loss_.steps);
      if (loss_.steps > 1) {
        absl::StrAppend(&lines, ",", next_ % loss_.steps);
      }
      if (HasLabel(loss_)) {
        absl::StrAppend(&lines, ",", NameOf(predictions.labels[i]));
      }
      for (const float prediction : row) {
        absl::StrAppendFormat(&lines, ",%.9g", prediction);
      }
      lines.push_back('\n');
    }
    return file_.Write(lines);
  }
  absl::Status Finish() override { return file_.Finish(); }

 private:
  static bool HasLabel(const LossPlan& loss) {
    const bool several = loss.kind == LossKind::kBinaryCrossEntropy && loss.outputs > 1;
    return PredictionKindOf(loss) != PredictionKind::kValues && !several;
  }

  std::string NameOf(uint64_t label) const {
    return label < names_.size() ? CsvField(names_[label]) : absl::StrCat(label);
  }

  FileReplacement file_;
  const LossPlan loss_;
  const std::vector<std::string> names_;
  uint64_t next_ = 0;  // step of all samples
};

}  // namespace

absl::StatusOr<std::unique_ptr<PredictionFile>> PredictionFile::Create(
    const std::string& path, uint64_t samples, const LossPlan& loss,
    std::vector<std::string> names) {
  const bool csv = absl::EndsWith(path, ".csv");
  if (!csv && !absl::EndsWith(path, ".npy")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": predictions are written to a .npy or a .csv file"));
  }
  ASSIGN_OR_RETURN(FileReplacement file, FileReplacement::Create(path));
  if (!csv) {
    std::vector<uint64_t> shape = {samples, loss.steps, loss.outputs};
    if (loss.steps == 1) {
      shape.erase(shape.begin() + 1);
    }
    RETURN_IF_ERROR(file.Write(NpyFloatHead(shape)));
    return std::make_unique<NpyPredictions>(std::move(file), samples * loss.steps * loss.outputs);
  }
  RETURN_IF_ERROR(file.Write(CsvPredictions::Head(loss)));
  return std::make_unique<CsvPredictions>(std::move(file), loss, std::move(names));
}

}  // namespace monsoon
