// Text as bytes: a sample's values are the ids of a window, its labels the bytes behind each.
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/data/source_kind.h"
#include "common/data/text_plan.h"

namespace monsoon {
namespace {

constexpr uint32_t kByteClasses = 256;

DatasetInfo Describe(const Dataset& dataset, const DataContext& context, Problems* problems) {
  DatasetInfo info;
  if (dataset.text().file().empty()) {
    problems->Add("text.file", absl::InvalidArgumentError("no file is named"));
    return info;
  }
  const absl::StatusOr<TextPlan> plan = PlanText(dataset.text(), context);
  if (!plan.ok()) {
    problems->Add("text.file", plan.status());
    return info;
  }
  for (const ContentFile& file : plan->files) {
    CheckResidence(dataset, file.path, file.compressed, problems);
  }
  info.examples = plan->samples;
  info.sample_shape = {plan->window};
  info.classes = kByteClasses;
  info.bytes = plan->bytes();
  info.type = ElementType::kInteger;
  info.labels = plan->window;
  return info;
}

absl::StatusOr<uint64_t> CountLabels(const Dataset&, const DataContext&) { return kByteClasses; }

// What can be wrong is a compressed file, or a byte for which an embedding has no row.
absl::Status Scan(const Dataset& dataset, const DataContext& context, const DatasetInfo& info) {
  ASSIGN_OR_RETURN(const TextPlan plan, PlanText(dataset.text(), context));
  const uint64_t rows = context.id_limit;
  // Some are in no window, or behind the last that counts: labels, or nothing.
  const uint64_t end = plan.begin + (info.examples - 1) * plan.stride + plan.window;
  const auto is_id = [&](uint64_t place) {
    return place < end && (place - plan.begin) % plan.stride < plan.window;
  };
  uint64_t at = plan.begin;
  return StreamContent(plan.files, context.access.roots, plan.begin, plan.end,
                       [&](std::span<const uint8_t> bytes) -> absl::Status {
                         for (size_t i = 0; rows != 0 && i < bytes.size(); ++i) {
                           if (bytes[i] >= rows && is_id(at + i)) {
                             return absl::InvalidArgumentError(
                                 absl::StrCat(ContentPlace(plan.files, at + i), " is ",
                                              ContentNumber(bytes[i], context.access.quoting),
                                              ", and the embedding has ", rows, " rows"));
                           }
                         }
                         at += bytes.size();
                         return absl::OkStatus();
                       });
}

void VisitFiles(Dataset* dataset, absl::FunctionRef<void(std::string*)> visit) {
  visit(dataset->mutable_text()->mutable_file());
}

}  // namespace

const SourceKind kTextSourceKind = {.source = Dataset::kText,
                                    .name = "text",
                                    .samples = "file",
                                    .labels = "file",
                                    .describe = &Describe,
                                    .count_classes = &CountLabels,
                                    .scan = &Scan,
                                    .visit_paths = &VisitFiles};

}  // namespace monsoon
