// Many steps of Muon, as NumPy makes them in float64: testdata/muon_steps.txt, which
// tests/interop/muon_steps.py writes, and compares with torch.optim.Muon.
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "common/optimizer/range_kernel.h"
#include "common/testing/status_matchers.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/optimizer.pb.h"

namespace monsoon {
namespace {

struct Case {
  size_t rows, columns;
  const char* muon;
};

constexpr Case kCases[] = {
    {4, 3, "rate: 0.02"},
    {3, 5, "rate: 0.02 momentum: 0.9 weight_decay: 0.5"},
    {5, 5, "rate: 0.01 without_nesterov: true steps: 7"},
    {2, 9, "rate: 0.005 momentum: 0.8 scale: MATCH_ADAMW"},
    {12, 4, "rate: 0.005 weight_decay: 0 steps: 1 scale: MATCH_ADAMW"},
};

// As in muon_steps.py.
float Start(size_t i) { return (static_cast<float>(i * 5 % 7) - 3.0f) / 4.0f; }
float Gradient(size_t step, size_t i) {
  return (static_cast<float>((step * 7 + i * 13 + step * step * (i + 1)) % 65) - 32.0f) / 16.0f;
}

// A case's matrix, and what moves it.
class Moved {
 public:
  explicit Moved(const Case& which) {
    Optimizer optimizer;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        std::string("sgd { rate: 1 } muon { ") + which.muon + " }", &optimizer));
    const size_t size = which.rows * which.columns;
    auto kernel = CreateRangeKernel(optimizer, {.matrices = {{"w", 0, which.rows, which.columns}}},
                                    {0, size});
    EXPECT_OK(kernel.status());
    kernel_ = *std::move(kernel);
    for (size_t i = 0; i < size; ++i) {
      w.push_back(Start(i));
    }
    m_.resize(size, 0.0f);
  }
  void StepTo(uint64_t end) {
    for (; steps_ < end; ++steps_) {
      std::vector<float> g(w.size());
      for (size_t i = 0; i < g.size(); ++i) {
        g[i] = Gradient(steps_ + 1, i);
      }
      kernel_->Apply(steps_, w, m_, g);
    }
  }
  std::vector<float> w;

 private:
  std::unique_ptr<OptimizerKernel> kernel_;
  std::vector<float> m_;
  uint64_t steps_ = 0;
};

TEST(MuonStepsTest, ThirtyStepsAreThoseOfNumPy) {
  std::ifstream file("common/optimizer/testdata/muon_steps.txt");
  std::vector<Moved> moved(std::begin(kCases), std::end(kCases));
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream words(line);
    size_t number = 0;
    uint64_t step = 0;
    ASSERT_TRUE(words >> number >> step && number < std::size(kCases)) << line;
    moved[number].StepTo(step);
    for (const float w : moved[number].w) {
      double expected = 0;
      ASSERT_TRUE(words >> expected) << line;
      // An iteration takes small singular values, and what rounding made of them, up to 3.4 times
      // as far: 480 units in the last place after five of them, here of steps of 0.02.
      EXPECT_NEAR(w, expected, 1e-5) << kCases[number].muon << ", step " << step;
    }
  }
  EXPECT_EQ(lines, 30);
}

}  // namespace
}  // namespace monsoon
