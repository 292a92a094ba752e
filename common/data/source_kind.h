// SourceKind: what is known of one source of Dataset without reading its samples. A new source is
// a file pair here (its row of the table), one in worker/data (its reader) and a line in each of
// the two tables: source_table.cc and worker/data/open_dataset.cc.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/data/data_context.h"
#include "common/data/dataset_info.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// Collects what is wrong with one data set; fields are relative to the Dataset: "npy.images".
class Problems {
 public:
  explicit Problems(std::vector<DatasetError>* errors) : errors_(errors) {}

  void Add(const std::string& field, const absl::Status& status) {
    if (first_.ok()) {
      first_ = status;
    }
    if (errors_ != nullptr) {
      errors_->push_back({field, status});
    }
  }
  const absl::Status& first() const { return first_; }

 private:
  std::vector<DatasetError>* errors_;
  absl::Status first_;
};

// Where the Dataset asks for ON_DISK and the file `path` `has_no_places`: is compressed or an
// archive, so that nobody can tell where a sample begins.
inline void CheckResidence(const Dataset& dataset, const std::string& path, bool has_no_places,
                           Problems* problems) {
  if (has_no_places && dataset.residence() == Dataset::ON_DISK) {
    problems->Add("residence", absl::InvalidArgumentError(
                                   absl::StrCat(path,
                                                " cannot be read with residence: ON_DISK: it is "
                                                "compressed or an archive")));
  }
}

struct SourceKind {
  Dataset::SourceCase source = Dataset::SOURCE_NOT_SET;
  const char* name = "";     // its field of Dataset: "npy"
  const char* samples = "";  // its own field that errors about samples are told under: "images"
  const char* labels = "";   // and those about classes: "labels"
  // Files say in which order they hold a sample's values; otherwise it is the model's.
  bool takes_layout = false;

  // From headers. What is wrong goes to `problems`; the answer counts only if nothing is.
  DatasetInfo (*describe)(const Dataset& dataset, const DataContext& context,
                          Problems* problems) = nullptr;
  // Largest label + 1, by reading labels alone; 0: it has targets.
  absl::StatusOr<uint64_t> (*count_classes)(const Dataset& dataset,
                                            const DataContext& context) = nullptr;
  // ScanValues (scan_values.h). Null: there is nothing that could be wrong.
  absl::Status (*scan)(const Dataset& dataset, const DataContext& context,
                       const DatasetInfo& info) = nullptr;
  // Calls `look` with the values of the first `samples` samples, in order, as they are in the files
  // (FirstRanges). Null: they have none, or all are alike.
  absl::Status (*first_values)(const Dataset& dataset, const DataContext& context, uint64_t samples,
                               absl::FunctionRef<void(double)> look) = nullptr;
  // Calls `visit` with each of its fields that names files, empty ones too. Null: none does.
  void (*visit_paths)(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) = nullptr;
};

// Null: SOURCE_NOT_SET, or it is not built in yet.
const SourceKind* FindSource(Dataset::SourceCase source);
// "idx, npy, synthetic": all that a job file of a network can name.
std::string SourceNames();

// The row of each source; they stand in NAME_source.cc.
extern const SourceKind kIdxSourceKind;
extern const SourceKind kNpySourceKind;
extern const SourceKind kNpzSourceKind;
extern const SourceKind kCsvSourceKind;
extern const SourceKind kLibsvmSourceKind;
extern const SourceKind kImageFolderSourceKind;
extern const SourceKind kCifar10SourceKind;
extern const SourceKind kTextSourceKind;
extern const SourceKind kSyntheticSourceKind;
extern const SourceKind kJoinersSourceKind;

}  // namespace monsoon
