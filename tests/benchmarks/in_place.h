// The memory's limit for an optimizer with one state vector: three loops over
// the same 20 bytes a parameter (w, state and g read, w and state written) with
// the least arithmetic that keeps the compiler from dropping any of it:
//   state += g * g; w -= 0.01 * g.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace monsoon {

struct InPlaceKernel {
  std::string name;  // by its instruction set
  void (*apply)(std::span<float> w, std::span<float> state, std::span<const float> g);
};

// Those that this machine can run: the compiler's baseline, AVX2, AVX-512.
std::vector<InPlaceKernel> InPlaceKernels();

}  // namespace monsoon
