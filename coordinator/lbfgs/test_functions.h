// Objectives with known minimisers for the driver's tests (More, Garbow,
// Hillstrom, "Testing Unconstrained Optimization Software", ACM TOMS 7(1), 1981)
// and the Objective that evaluates a function over a LocalVectorSpace.
#pragma once

#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "coordinator/lbfgs/local_vector_space.h"
#include "coordinator/lbfgs/objective.h"

namespace monsoon::testing {

// f(x); writes the gradient to `g`, as long as x.
using Function = std::function<double(std::span<const double> x, std::span<double> g)>;

struct TestFunction {
  std::string name;
  Function function;
  std::vector<double> start;
  std::vector<double> minimiser;
  double minimum = 0.0;
};

// Pairs of the two-dimensional function; `n` is even.
TestFunction Rosenbrock(size_t n);
TestFunction Beale();
// Singular Hessian at the minimiser.
TestFunction PowellSingular();
TestFunction Wood();
TestFunction HelicalValley();
// 1/2 sum of a_i (x_i - 1)^2, a from 1 to `condition`.
TestFunction Quadratic(size_t n, double condition);
// 1 + Quadratic(30, condition) with noise that is a function of x: of f relative to it, of
// g absolute in each element.
TestFunction Noisy(double condition, double f_noise, double g_noise);

// Of the logistic regression's data.
inline constexpr size_t kFeatures = 8;
struct Features {
  double scale = 1.0;           // of the first features
  double mean = 0.0;            // of these, in their deviations
  size_t features = kFeatures;  // so many
  bool separable = false;
  double last = 1.0;  // scale of the last two
};
void PrintTo(const Features& features, std::ostream* out);

// The mean loss of logistic regression, summed in double: of a weight for each feature, and a bias.
Function Logistic(const Features& c);

class FunctionObjective : public Objective {
 public:
  FunctionObjective(LocalVectorSpace* space, Function function)
      : space_(space), function_(std::move(function)) {}

  absl::StatusOr<ObjectiveValue> Evaluate(const std::string& w, const std::string& gradient_out,
                                          const std::string& along) override;

  // f of every evaluation, in order, and the points.
  const std::vector<double>& values() const { return values_; }
  const std::vector<std::vector<double>>& points() const { return points_; }

 private:
  LocalVectorSpace* space_;
  Function function_;
  std::vector<double> values_;
  std::vector<std::vector<double>> points_;
};

}  // namespace monsoon::testing
