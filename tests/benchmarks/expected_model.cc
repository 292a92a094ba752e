#include "tests/benchmarks/expected_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace monsoon {
namespace {

constexpr size_t kSampleDistance = 16384;  // 64 KiB

absl::Status Check(const std::vector<float>& period, std::span<const float> found, size_t index) {
  const float wanted = period[index % period.size()];
  if (found[index] == wanted) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("parameter ", index, " is ", found[index], " instead of ", wanted));
}

}  // namespace

ExpectedModel::ExpectedModel() : parameters_(kPeriod), state_(kPeriod), gradient_(kPeriod) {
  for (size_t i = 0; i < kPeriod; ++i) {
    parameters_[i] = (static_cast<float>(i) - 511.5f) / 1024.0f;
    gradient_[i] = (static_cast<float>(i * 7 % kPeriod) - 511.5f) / 65536.0f;
  }
}

void ExpectedModel::Fill(const std::vector<float>& period, std::span<float> out) {
  for (size_t begin = 0; begin < out.size(); begin += period.size()) {
    std::copy_n(period.data(), std::min(period.size(), out.size() - begin), out.data() + begin);
  }
}

void ExpectedModel::Push(const ApplyFunction& apply) {
  apply(pushes_++, parameters_, state_, gradient_);
}

void ExpectedModel::Spoil(std::span<float> parameters) {
  constexpr float kWrong = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 0; i < parameters.size(); i += kSampleDistance) {
    parameters[i] = kWrong;
  }
  parameters.back() = kWrong;
}

absl::Status ExpectedModel::CheckSamples(std::span<const float> parameters) const {
  for (size_t i = 0; i < parameters.size(); i += kSampleDistance) {
    if (const absl::Status status = Check(parameters_, parameters, i); !status.ok()) {
      return status;
    }
  }
  return Check(parameters_, parameters, parameters.size() - 1);
}

absl::Status ExpectedModel::CheckAll(std::span<const float> parameters) const {
  for (size_t begin = 0; begin < parameters.size(); begin += kPeriod) {
    const auto part = parameters.subspan(begin, std::min(kPeriod, parameters.size() - begin));
    const auto [found, wanted] = std::mismatch(part.begin(), part.end(), parameters_.begin());
    if (found != part.end()) {
      return Check(parameters_, parameters, begin + static_cast<size_t>(found - part.begin()));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
