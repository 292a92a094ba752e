#include "common/data/sample_shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace monsoon {
namespace {

using Shape = std::vector<uint64_t>;

uint64_t Values(const Shape& shape) {
  uint64_t values = 1;
  for (const uint64_t extent : shape) {
    values *= extent;
  }
  return values;
}

// What decides about the order of the values: dimensions of 1 do not.
Shape Squeezed(Shape shape) {
  std::erase(shape, 1u);
  return shape;
}

bool IsFlat(const Shape& shape) { return Squeezed(shape).size() <= 1; }

bool SameOrder(const Shape& a, const Shape& b) {
  return Values(a) == Values(b) && (IsFlat(a) || IsFlat(b) || Squeezed(a) == Squeezed(b));
}

std::string LayoutText(Dataset::Layout layout) {
  return layout == Dataset::NHWC ? " after layout: NHWC" : "";
}

}  // namespace

std::string SampleShapeText(std::span<const uint64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

Shape ShapeAfterReading(std::span<const uint64_t> stored, Dataset::Layout layout) {
  if (layout == Dataset::NHWC && stored.size() == 3) {
    return {stored[2], stored[0], stored[1]};
  }
  return Shape(stored.begin(), stored.end());
}

absl::Status CheckSampleShape(std::span<const uint64_t> stored, Dataset::Layout layout,
                              std::span<const uint32_t> input_shape) {
  if (layout == Dataset::NHWC && stored.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples are ", SampleShapeText(stored),
                     ", and layout: NHWC is for samples of [height, width, channels]"));
  }
  const Shape samples = ShapeAfterReading(stored, layout);
  const Shape input(input_shape.begin(), input_shape.end());
  if (SameOrder(samples, input)) {
    return absl::OkStatus();
  }
  if (Values(samples) != Values(input)) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples are ", SampleShapeText(samples), " (", Values(samples), " values)",
                     LayoutText(layout), ", the model's input_shape is ", SampleShapeText(input),
                     " (", Values(input), ")"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "samples are ", SampleShapeText(samples), LayoutText(layout), ", the model's input_shape is ",
      SampleShapeText(input), ": as many values, in another order"));
}

std::string SampleShapeHint(std::span<const uint64_t> stored, Dataset::Layout layout,
                            std::span<const uint32_t> input_shape) {
  const Shape input(input_shape.begin(), input_shape.end());
  const bool reads_nhwc = layout == Dataset::NHWC;
  if (stored.size() != 3) {
    return reads_nhwc ? "leave layout out" : "";
  }
  if (!reads_nhwc && SameOrder(ShapeAfterReading(stored, Dataset::NHWC), input)) {
    return "write layout: NHWC if the files hold [height, width, channels]";
  }
  return reads_nhwc && SameOrder(Shape(stored.begin(), stored.end()), input)
             ? "leave layout out: the files hold the model's order"
             : "";
}

absl::Status CheckSameSamples(std::span<const uint64_t> train, Dataset::Layout train_layout,
                              std::span<const uint64_t> test, Dataset::Layout test_layout) {
  const Shape a = ShapeAfterReading(train, train_layout);
  const Shape b = ShapeAfterReading(test, test_layout);
  if (SameOrder(a, b)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("test samples are ", SampleShapeText(b),
                                                 LayoutText(test_layout), ", training samples are ",
                                                 SampleShapeText(a), LayoutText(train_layout)));
}

}  // namespace monsoon
