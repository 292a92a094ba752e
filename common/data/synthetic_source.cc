// Sources without files: what is made from a seed, and what only programs have.
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/data/source_kind.h"

namespace monsoon {
namespace {

DatasetInfo DescribeSynthetic(const Dataset& dataset, const DataContext&, Problems* problems) {
  const SyntheticSource& source = dataset.synthetic();
  if (source.examples() == 0) {
    problems->Add("synthetic.examples", absl::InvalidArgumentError("must be at least 1"));
  }
  constexpr uint64_t kMaxExamples = std::numeric_limits<uint32_t>::max();
  if (source.examples() > kMaxExamples &&
      (dataset.limit() == 0 || dataset.limit() > kMaxExamples)) {
    problems->Add("synthetic.examples",
                  absl::InvalidArgumentError(
                      absl::StrCat(source.examples(), " samples; there must be fewer than 2^32")));
  }
  if (source.classes() == 0) {
    problems->Add("synthetic.classes", absl::InvalidArgumentError("must be at least 1"));
  }
  DatasetInfo info;
  info.examples = source.examples();
  info.classes = source.classes();
  info.type = ElementType::kFloat32;
  return info;
}

absl::StatusOr<uint64_t> CountSynthetic(const Dataset& dataset, const DataContext&) {
  return dataset.synthetic().classes();
}

DatasetInfo DescribeJoiners(const Dataset& dataset, const DataContext&, Problems*) {
  DatasetInfo info;
  info.examples =
      dataset.joiners().unnumbered() ? kUnnumberedExamples : dataset.joiners().examples();
  info.type = ElementType::kFloat32;
  return info;
}

absl::StatusOr<uint64_t> CountJoiners(const Dataset&, const DataContext&) {
  return absl::InvalidArgumentError("only the programs that join the job know its classes");
}

}  // namespace

const SourceKind kSyntheticSourceKind = {.source = Dataset::kSynthetic,
                                         .name = "synthetic",
                                         .samples = "examples",
                                         .labels = "classes",
                                         .describe = &DescribeSynthetic,
                                         .count_classes = &CountSynthetic};

const SourceKind kJoinersSourceKind = {.source = Dataset::kJoiners,
                                       .name = "joiners",
                                       .samples = "examples",
                                       .labels = "examples",
                                       .describe = &DescribeJoiners,
                                       .count_classes = &CountJoiners};

}  // namespace monsoon
