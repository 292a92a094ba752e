#include "coordinator/lbfgs/test_functions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numbers>

#include "common/base/random.h"

namespace monsoon::testing {
namespace {

// Uniform in [-1, 1), a function of the point's bits.
double Scatter(std::span<const double> x, uint32_t stream) {
  uint64_t bits = 0;
  for (const double value : x) {
    bits = bits * 0x9e3779b97f4a7c15u + std::bit_cast<uint64_t>(value);
  }
  return 2.0 * PhiloxStream(bits, StreamKind::kTest, stream).Uniform(0) - 1.0;
}

}  // namespace

TestFunction Rosenbrock(size_t n) {
  TestFunction test{.name = "Rosenbrock"};
  test.function = [](std::span<const double> x, std::span<double> g) {
    double f = 0.0;
    for (size_t i = 0; i + 1 < x.size(); i += 2) {
      const double a = 1.0 - x[i];
      const double b = 10.0 * (x[i + 1] - x[i] * x[i]);
      g[i + 1] = 20.0 * b;
      g[i] = -2.0 * (x[i] * g[i + 1] + a);
      f += a * a + b * b;
    }
    return f;
  };
  for (size_t i = 0; i < n; i += 2) {
    test.start.insert(test.start.end(), {-1.2, 1.0});
  }
  test.minimiser.assign(n, 1.0);
  return test;
}

TestFunction Beale() {
  TestFunction test{.name = "Beale", .start = {1.0, 1.0}, .minimiser = {3.0, 0.5}};
  test.function = [](std::span<const double> x, std::span<double> g) {
    constexpr double kY[] = {1.5, 2.25, 2.625};
    double f = 0.0;
    g[0] = g[1] = 0.0;
    for (int i = 1; i <= 3; ++i) {
      const double power = std::pow(x[1], i);
      const double r = kY[i - 1] - x[0] * (1.0 - power);
      f += r * r;
      g[0] -= 2.0 * r * (1.0 - power);
      g[1] += 2.0 * r * x[0] * i * std::pow(x[1], i - 1);
    }
    return f;
  };
  return test;
}

TestFunction PowellSingular() {
  TestFunction test{
      .name = "Powell singular", .start = {3.0, -1.0, 0.0, 1.0}, .minimiser = {0.0, 0.0, 0.0, 0.0}};
  test.function = [](std::span<const double> x, std::span<double> g) {
    const double a = x[0] + 10.0 * x[1];
    const double b = x[2] - x[3];
    const double c = x[1] - 2.0 * x[2];
    const double d = x[0] - x[3];
    g[0] = 2.0 * a + 40.0 * d * d * d;
    g[1] = 20.0 * a + 4.0 * c * c * c;
    g[2] = 10.0 * b - 8.0 * c * c * c;
    g[3] = -10.0 * b - 40.0 * d * d * d;
    return a * a + 5.0 * b * b + c * c * c * c + 10.0 * d * d * d * d;
  };
  return test;
}

TestFunction Wood() {
  TestFunction test{
      .name = "Wood", .start = {-3.0, -1.0, -3.0, -1.0}, .minimiser = {1.0, 1.0, 1.0, 1.0}};
  test.function = [](std::span<const double> x, std::span<double> g) {
    const double a = x[1] - x[0] * x[0];
    const double b = 1.0 - x[0];
    const double c = x[3] - x[2] * x[2];
    const double d = 1.0 - x[2];
    const double e = x[1] + x[3] - 2.0;
    const double h = x[1] - x[3];
    g[0] = -400.0 * a * x[0] - 2.0 * b;
    g[1] = 200.0 * a + 20.0 * e + 0.2 * h;
    g[2] = -360.0 * c * x[2] - 2.0 * d;
    g[3] = 180.0 * c + 20.0 * e - 0.2 * h;
    return 100.0 * a * a + b * b + 90.0 * c * c + d * d + 10.0 * e * e + 0.1 * h * h;
  };
  return test;
}

TestFunction HelicalValley() {
  TestFunction test{
      .name = "Helical valley", .start = {-1.0, 0.0, 0.0}, .minimiser = {1.0, 0.0, 0.0}};
  test.function = [](std::span<const double> x, std::span<double> g) {
    constexpr double kTwoPi = 2.0 * std::numbers::pi;
    double theta = std::atan(x[1] / x[0]) / kTwoPi;
    if (x[0] < 0.0) {
      theta += 0.5;
    }
    const double r2 = x[0] * x[0] + x[1] * x[1];
    const double r = std::sqrt(r2);
    const double a = x[2] - 10.0 * theta;
    const double b = r - 1.0;
    g[0] = 200.0 * (a * 10.0 * x[1] / (kTwoPi * r2) + b * x[0] / r);
    g[1] = 200.0 * (-a * 10.0 * x[0] / (kTwoPi * r2) + b * x[1] / r);
    g[2] = 200.0 * a + 2.0 * x[2];
    return 100.0 * (a * a + b * b) + x[2] * x[2];
  };
  return test;
}

TestFunction Quadratic(size_t n, double condition) {
  TestFunction test{.name = "Quadratic"};
  test.function = [condition](std::span<const double> x, std::span<double> g) {
    double f = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(x.size() - 1);
      const double a = std::pow(condition, part);
      g[i] = a * (x[i] - 1.0);
      f += 0.5 * g[i] * (x[i] - 1.0);
    }
    return f;
  };
  test.start.assign(n, 0.0);
  test.minimiser.assign(n, 1.0);
  return test;
}

TestFunction Noisy(double condition, double f_noise, double g_noise) {
  TestFunction test = Quadratic(30, condition);
  test.name = "noisy quadratic";
  test.function = [inner = test.function, f_noise, g_noise](std::span<const double> x,
                                                            std::span<double> g) {
    const double f = 1.0 + inner(x, g);
    for (size_t i = 0; i < g.size(); ++i) {
      g[i] += g_noise * Scatter(x, static_cast<uint32_t>(i + 1));
    }
    return f * (1.0 + f_noise * Scatter(x, 0));
  };
  test.minimum = 1.0;
  return test;
}

void PrintTo(const Features& features, std::ostream* out) {
  *out << "scale " << features.scale << " and mean " << features.mean << " of " << features.features
       << (features.separable ? ", separable" : "") << ", scale " << features.last << " of two";
}

Function Logistic(const Features& c) {
  constexpr size_t kSamples = 300;
  const PhiloxStream values(7, StreamKind::kTest, 1);
  const PhiloxStream plane(7, StreamKind::kTest, 2);
  auto data = std::make_shared<std::vector<double>>(kSamples * kFeatures);
  auto labels = std::make_shared<std::vector<double>>(kSamples);
  for (size_t i = 0; i < kSamples; ++i) {
    double side = c.separable ? 0.0 : 0.7 * values.Normal(kSamples * kFeatures + i) + 0.3;
    for (size_t j = 0; j < kFeatures; ++j) {
      const double value = values.Normal(i * kFeatures + j);
      (*data)[i * kFeatures + j] = j < c.features      ? c.scale * (value + c.mean)
                                   : j + 2 < kFeatures ? value
                                                       : c.last * value;
      side += value * plane.Normal(j);
    }
    (*labels)[i] = side > 0.0 ? 1.0 : -1.0;
  }
  return [=](std::span<const double> w, std::span<double> g) {
    double f = 0.0;
    std::ranges::fill(g, 0.0);
    for (size_t i = 0; i < kSamples; ++i) {
      const double* const x = data->data() + i * kFeatures;
      double margin = w[kFeatures];
      for (size_t j = 0; j < kFeatures; ++j) {
        margin += x[j] * w[j];
      }
      margin *= (*labels)[i];
      f += margin > 0.0 ? std::log1p(std::exp(-margin)) : std::log1p(std::exp(margin)) - margin;
      const double slope = -(*labels)[i] / (1.0 + std::exp(margin)) / kSamples;
      for (size_t j = 0; j < kFeatures; ++j) {
        g[j] += slope * x[j];
      }
      g[kFeatures] += slope;
    }
    return f / kSamples;
  };
}

absl::StatusOr<ObjectiveValue> FunctionObjective::Evaluate(const std::string& w,
                                                           const std::string& gradient_out,
                                                           const std::string& along) {
  RETURN_IF_ERROR(space_->Flush());
  ASSIGN_OR_RETURN(const std::span<const double> x, space_->Read(w));
  std::vector<double> g(x.size());
  const double f = function_(x, g);
  values_.push_back(f);
  points_.emplace_back(x.begin(), x.end());
  if (!std::isfinite(f)) {
    return ObjectiveValue{.f = std::numeric_limits<double>::infinity(), .finite = false};
  }
  RETURN_IF_ERROR(space_->Write(gradient_out, g));
  ObjectiveValue value{.f = f, .finite = true};
  RETURN_IF_ERROR(MeasurePoint(space_, w, gradient_out, along, &value));
  return value;
}

}  // namespace monsoon::testing
