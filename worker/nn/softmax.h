// softmax(outputs): what a network's last outputs say of each class.
#pragma once

#include <cstddef>
#include <span>

namespace monsoon {

// `outputs` is [n, classes]; so is `probabilities`, each row of which adds up to 1 to
// float32's rounding. Computed in double and shifted by the row's maximum: nothing
// overflows, and small values keep their digits. An output that is not finite gives
// NaN in its row.
void Softmax(std::span<const float> outputs, size_t classes, std::span<float> probabilities);
void Softmax(std::span<const double> outputs, size_t classes, std::span<float> probabilities);

}  // namespace monsoon
