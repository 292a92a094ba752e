// The MNIST family's files as a source.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/data/idx_header.h"
#include "common/data/source_files.h"
#include "common/data/source_kind.h"
#include "common/data/stream_file.h"

namespace monsoon {
namespace {

DatasetInfo Describe(const Dataset& dataset, const DataContext& context, Problems* problems) {
  const IdxSource& source = dataset.idx();
  DatasetInfo info;
  const absl::StatusOr<IdxHeader> images =
      ReadNamed("idx.images", source.images(), &ReadIdxHeader, context.access, problems);
  const absl::StatusOr<IdxHeader> labels =
      ReadNamed("idx.labels", source.labels(), &ReadIdxHeader, context.access, problems);
  if (labels.ok() && labels->shape.size() != 1) {
    problems->Add("idx.labels",
                  absl::InvalidArgumentError(absl::StrCat(
                      source.labels(), " holds ", labels->shape.size(), "-dimensional data [",
                      absl::StrJoin(labels->shape, ", "), "] (magic 0000080", labels->shape.size(),
                      "), not labels (magic 00000801)")));
  }
  if (images.ok() && images->shape.size() < 2) {
    problems->Add("idx.images", absl::InvalidArgumentError(
                                    absl::StrCat(source.images(),
                                                 " holds labels (magic 00000801), not images "
                                                 "(magic 00000803)")));
  }
  if (!problems->first().ok()) {
    return info;
  }
  CheckResidence(dataset, source.images(), images->compressed, problems);
  CheckCounts("idx.labels", source.images(), images->shape[0], source.labels(), labels->shape[0],
              "labels", problems);
  info.examples = images->shape[0];
  info.type = dataset.raw() ? ElementType::kInteger : ElementType::kUint8;
  info.sample_shape.assign(images->shape.begin() + 1, images->shape.end());
  info.bytes = images->data_bytes;
  return info;
}

absl::StatusOr<uint64_t> CountLabels(const Dataset& dataset, const DataContext& context) {
  const std::string& path = dataset.idx().labels();
  ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(path, context.access));
  uint8_t largest = 0;
  RETURN_IF_ERROR(StreamFile(path, context.access.roots, header.data_offset, header.data_bytes,
                             [&](std::span<const uint8_t> labels) {
                               largest = std::max(largest, *std::ranges::max_element(labels));
                               return absl::OkStatus();
                             }));
  return uint64_t{largest} + 1;
}

// Bytes are always right, unless they are ids: what can be wrong is the file.
absl::Status Scan(const Dataset& dataset, const DataContext& context, const DatasetInfo& info) {
  const std::string& path = dataset.idx().images();
  ASSIGN_OR_RETURN(const IdxHeader header, ReadIdxHeader(path, context.access));
  const uint64_t largest = context.id_limit == 0 ? UINT8_MAX : context.id_limit - 1;
  // Beyond: only that it can be read.
  const uint64_t considered = header.data_offset + info.examples * info.sample_elements();
  uint64_t at = header.data_offset;
  return StreamFile(
      path, context.access.roots, header.data_offset, header.data_bytes,
      [&](std::span<const uint8_t> bytes) -> absl::Status {
        const auto ids = bytes.first(std::min(bytes.size(), considered - std::min(considered, at)));
        const auto found = std::ranges::find_if(ids, [&](uint8_t id) { return id > largest; });
        if (found != ids.end()) {
          return absl::InvalidArgumentError(
              absl::StrCat(path, ": byte ", at + static_cast<uint64_t>(found - ids.begin()), " is ",
                           ContentNumber(*found, context.access.quoting),
                           ", not an id below the embedding's ", context.id_limit, " rows"));
        }
        at += bytes.size();
        return absl::OkStatus();
      });
}

void VisitFiles(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_idx()->mutable_images());
  visit(dataset->mutable_idx()->mutable_labels());
}

}  // namespace

const SourceKind kIdxSourceKind = {.source = Dataset::kIdx,
                                   .name = "idx",
                                   .samples = "images",
                                   .labels = "labels",
                                   .takes_layout = true,
                                   .describe = &Describe,
                                   .count_classes = &CountLabels,
                                   .scan = &Scan,
                                   .visit_paths = &VisitFiles};

}  // namespace monsoon
