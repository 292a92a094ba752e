#include "worker/data/idx_reader.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/array_source.h"
#include "common/data/idx_header.h"
#include "worker/data/array_reader.h"

namespace monsoon {
namespace {

JoinedArray ArrayOf(const std::string& path, const IdxHeader& header) {
  return {.name = path,
          .member = "",
          .type = NpyType::kUint8,
          .shape = {header.shape.begin(), header.shape.end()},
          .parts = {{.path = path, .data_offset = header.data_offset, .rows = header.shape[0]}},
          .compressed = header.compressed};
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> ReadIdx(const Dataset& dataset,
                                                    const ReadOptions& options) {
  const IdxSource& source = dataset.idx();
  const DataAccess& access = options.context.access;
  ASSIGN_OR_RETURN(const IdxHeader images, ReadIdxHeader(source.images(), access));
  if (images.shape.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.images(), " has 1 dimension: labels, not images"));
  }
  SampleArrays arrays{.images = ArrayOf(source.images(), images)};
  if (!source.labels().empty() && !options.context.unlabelled) {
    ASSIGN_OR_RETURN(const IdxHeader labels, ReadIdxHeader(source.labels(), access));
    if (labels.shape.size() != 1 || labels.shape[0] != images.shape[0]) {
      return absl::InvalidArgumentError(
          absl::StrCat(source.labels(), " does not hold one label for each of the ",
                       images.shape[0], " images of ", source.images()));
    }
    arrays.labels = ArrayOf(source.labels(), labels);
  }
  return ReadSampleArrays(arrays, options);
}

}  // namespace monsoon
