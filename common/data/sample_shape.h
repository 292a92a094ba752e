// Whether the samples of a data set are in the order that a model computes in
// (Dataset.layout of proto/dataset.proto). Shapes are without the batch
// dimension.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/dataset.pb.h"

namespace monsoon {

// "[3, 32, 32]".
std::string SampleShapeText(std::span<const uint64_t> shape);

// The shape of samples stored as `stored`, as they come from the reader:
// [h, w, c] becomes [c, h, w] under NHWC.
std::vector<uint64_t> ShapeAfterReading(std::span<const uint64_t> stored, Dataset::Layout layout);

// InvalidArgument with both shapes where the samples do not fit `input_shape`:
// as many values in the same order, dimensions of 1 left aside; or either is
// flat. Also where NHWC is asked of samples that have not three dimensions.
absl::Status CheckSampleShape(std::span<const uint64_t> stored, Dataset::Layout layout,
                              std::span<const uint32_t> input_shape);

// What to do about samples that CheckSampleShape refused, or "".
std::string SampleShapeHint(std::span<const uint64_t> stored, Dataset::Layout layout,
                            std::span<const uint32_t> input_shape);

// The same for a test set beside its training set.
absl::Status CheckSameSamples(std::span<const uint64_t> train, Dataset::Layout train_layout,
                              std::span<const uint64_t> test, Dataset::Layout test_layout);

}  // namespace monsoon
