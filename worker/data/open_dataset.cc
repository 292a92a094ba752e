#include "worker/data/open_dataset.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "worker/data/idx_reader.h"
#include "worker/data/npy_reader.h"
#include "worker/data/synthetic.h"

namespace monsoon {
namespace {

absl::StatusOr<std::unique_ptr<DataSource>> Open(const Dataset& dataset, size_t values) {
  const Normalisation normalisation{dataset.mean(), dataset.scale() == 0 ? 1.0 : dataset.scale()};
  switch (dataset.source_case()) {
    case Dataset::kIdx:
      return ReadIdx(dataset.idx(), dataset.limit(), normalisation);
    case Dataset::kNpy:
      return ReadNpy(dataset.npy(), dataset.limit(), normalisation);
    case Dataset::kSynthetic:
      return MakeSynthetic(dataset.synthetic(), values, dataset.limit(), normalisation);
    case Dataset::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the data set has no source: set idx, npy or synthetic");
}

std::string Name(const Dataset& dataset) {
  return dataset.has_idx() ? dataset.idx().images() : dataset.npy().images();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenDataset(const Dataset& dataset, size_t values) {
  ASSIGN_OR_RETURN(std::unique_ptr<DataSource> source, Open(dataset, values));
  if (source->values_per_example() != values) {
    return absl::InvalidArgumentError(absl::StrCat(Name(dataset), " has samples of ",
                                                   source->values_per_example(),
                                                   " values, the model's input has ", values));
  }
  return source;
}

}  // namespace monsoon
