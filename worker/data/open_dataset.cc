#include "worker/data/open_dataset.h"

#include "absl/strings/str_cat.h"
#include "common/data/source_kind.h"
#include "worker/data/array_reader.h"
#include "worker/data/content_reader.h"
#include "worker/data/idx_reader.h"
#include "worker/data/image_folder_reader.h"
#include "worker/data/read_options.h"
#include "worker/data/synthetic.h"
#include "worker/data/table_reader.h"

namespace monsoon {
namespace {

absl::StatusOr<std::unique_ptr<DataSource>> OpenSynthetic(const Dataset& dataset,
                                                          const ReadOptions& options) {
  return MakeSynthetic(dataset.synthetic(), options.context.input_values(), options.limit,
                       options.normalisation);
}

absl::StatusOr<std::unique_ptr<DataSource>> RefuseJoiners(const Dataset&, const ReadOptions&) {
  return absl::FailedPreconditionError(
      "the data set is in the programs that join the job: no worker can read it");
}

// One line a source; common/data/source_table.cc has the other table.
struct Reader {
  Dataset::SourceCase source;
  absl::StatusOr<std::unique_ptr<DataSource>> (*read)(const Dataset& dataset,
                                                      const ReadOptions& options);
};
constexpr Reader kReaders[] = {
    {Dataset::kIdx, &ReadIdx},
    {Dataset::kNpy, &ReadArrays},
    {Dataset::kNpz, &ReadArrays},
    {Dataset::kCifar10, &ReadCifar10},
    {Dataset::kText, &ReadText},
    {Dataset::kCsv, &ReadTableSource},
    {Dataset::kLibsvm, &ReadTableSource},
    {Dataset::kImageFolder, &ReadImageFolder},
    {Dataset::kSynthetic, &OpenSynthetic},
    {Dataset::kJoiners, &RefuseJoiners},
};

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataset(const Dataset& dataset,
                                                        const DataContext& context) {
  for (const Reader& reader : kReaders) {
    if (reader.source == dataset.source_case()) {
      return reader.read(dataset, ReadOptions::Of(dataset, context));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the data set has no source: set one of ", SourceNames()));
}

}  // namespace monsoon
