// Tables of what torch.optim makes of three parameters that begin at 1, -0.5 and 0.25, as the
// scripts in tests/interop write them: a line has a case, a step and the parameters after it.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace monsoon::testing {

inline constexpr float kTorchStart[] = {1.0f, -0.5f, 0.25f};

// As in torch_optimizers.py.
inline float TorchGradient(int step, int index) {
  return static_cast<float>((step * 7 + index * 13 + step * step * (index + 1)) % 65 - 32) / 16.0f;
}

// By case and step. A line that cannot be read fails the running test.
inline std::map<std::pair<int, int>, std::vector<float>> ReadTorchTable(const std::string& path) {
  std::ifstream file(path);
  std::map<std::pair<int, int>, std::vector<float>> table;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    int number = 0, step = 0;
    std::vector<float> w(3);
    words >> number >> step >> w[0] >> w[1] >> w[2];
    EXPECT_FALSE(words.fail()) << line;
    table[{number, step}] = w;
  }
  return table;
}

}  // namespace monsoon::testing
