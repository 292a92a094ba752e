// A LibSVM file: it is refused, or its samples' indices ascend below the features and its values
// are finite, and the same however the file is cut in two.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/check.h"
#include "common/data/libsvm_parser.h"

namespace monsoon {
namespace {

constexpr uint32_t kFeatures = 1000;

bool ParseCut(absl::string_view text, size_t cut, std::vector<float>* all) {
  const auto visit = [&](absl::string_view label, std::span<const LibsvmValue> values, uint64_t) {
    CHECK(!label.empty());
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK_LT(values[i].index, kFeatures);
      CHECK(i == 0 || values[i - 1].index < values[i].index);
      CHECK(std::isfinite(values[i].value));
      all->push_back(static_cast<float>(values[i].index));
      all->push_back(values[i].value);
    }
    return absl::OkStatus();
  };
  LibsvmParser parser("fuzz", kFeatures, Quoting::kShow);
  return parser.Parse(text.substr(0, cut), visit).ok() &&
         parser.Parse(text.substr(cut), visit).ok() && parser.Finish(visit).ok();
}

}  // namespace
}  // namespace monsoon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<float> whole, cut;
  const bool right = monsoon::ParseCut(text, size, &whole);
  CHECK_EQ(monsoon::ParseCut(text, size / 2, &cut), right);
  CHECK(cut == whole);
  return 0;
}
