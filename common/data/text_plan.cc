#include "common/data/text_plan.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace monsoon {
namespace {

// A window is kept by every batch as floats.
constexpr uint64_t kMaxWindow = 1 << 24;

uint64_t ShareOf(uint64_t bytes, double share) {
  return static_cast<uint64_t>(std::floor(static_cast<double>(bytes) * share));
}

}  // namespace

absl::StatusOr<TextPlan> PlanText(const TextFiles& source, const DataContext& context) {
  TextPlan plan;
  plan.window = source.window() != 0 ? source.window() : context.input_values();
  plan.stride = source.stride() != 0 ? source.stride() : plan.window;
  if (plan.window == 0 || plan.window > kMaxWindow) {
    return absl::InvalidArgumentError(
        absl::StrCat("a window of ", plan.window, " bytes; it must be 1 to ", kMaxWindow));
  }
  // A file to predict for is no training set's neighbour: all of it counts.
  const double first = context.unlabelled ? 0 : source.begin();
  const double last = context.unlabelled || source.end() == 0 ? 1 : source.end();
  if (!(first >= 0 && first < last && last <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin ", first, " and end ", last, " are not a part of [0, 1]"));
  }
  ASSIGN_OR_RETURN(plan.files, OpenContentFiles(source.file(), context.access.roots));
  const uint64_t bytes = ContentBytes(plan.files);
  plan.begin = ShareOf(bytes, first);
  plan.end = last == 1 ? bytes : ShareOf(bytes, last);
  plan.sample_bytes = plan.window + (context.unlabelled ? 0 : 1);
  if (plan.bytes() < plan.sample_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        source.file(), ": ", plan.bytes(), plan.bytes() == bytes ? "" : absl::StrCat(" of ", bytes),
        " bytes of text, a sample of a window of ", plan.window, " needs ", plan.sample_bytes));
  }
  plan.samples = (plan.bytes() - plan.sample_bytes) / plan.stride + 1;
  if (plan.samples > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(source.file(), ": ", plan.samples,
                                                   " samples; there must be fewer than 2^32: "
                                                   "write a larger stride"));
  }
  return plan;
}

}  // namespace monsoon
