#include "common/config/data_findings.h"

#include <algorithm>
#include <utility>

#include "common/config/data_advice.h"
#include "common/config/job_check.h"
#include "common/config/location_map.h"
#include "common/config/reporter.h"
#include "common/config/training_advice.h"

namespace monsoon {
namespace {

// What is advised to train `examples` samples; 0: nobody knows how many there are.
std::vector<Diagnostic> TrainingAdvice(const Job& job, uint64_t examples) {
  const LocationMap nowhere;
  std::vector<Diagnostic> advice;
  Reporter reporter("", &nowhere, &advice);
  AdviseTraining(job, examples, &reporter);
  return advice;
}

bool SaysTheSame(const Diagnostic& a, const Diagnostic& b) {
  return a.field == b.field && a.message == b.message;
}

}  // namespace

DataFindings FindInData(const Job& job, const DataAccess& access) {
  const LocationMap nowhere;
  DataFindings findings;
  Reporter reporter("", &nowhere, &findings.errors);
  CheckedData data = CheckJob(job, DataCheck::kHeaders, access, &reporter);
  if (findings.errors.empty()) {
    const uint64_t examples = data.train ? data.train->examples : 0;
    const std::vector<Diagnostic> told = TrainingAdvice(job, /*examples=*/0);
    for (Diagnostic& advice : TrainingAdvice(job, examples)) {
      const auto same = [&](const Diagnostic& other) { return SaysTheSame(advice, other); };
      if (std::ranges::none_of(told, same)) {
        findings.warnings.push_back(std::move(advice));
      }
    }
    Reporter adviser("", &nowhere, &findings.warnings);
    AdviseData(job, data, &adviser);
    AdviseFeatures(job, data, access, &adviser);
  }
  findings.train = std::move(data.train);
  findings.test = std::move(data.test);
  return findings;
}

}  // namespace monsoon
