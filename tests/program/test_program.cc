#include "tests/program/test_program.h"

#include <cmath>
#include <cstring>

namespace monsoon::testing {

float Target(uint32_t sample, size_t i) {
  return static_cast<float>((sample * 7 + i * 13) % 17) * 0.125f - 1.0f;
}

std::vector<float> GradientOf(const monsoon_batch& batch, const std::vector<float>& w) {
  std::vector<float> gradient(w.size());
  for (size_t i = 0; i < w.size(); ++i) {
    float sum = 0;
    for (size_t s = 0; s < batch.count; ++s) {
      sum += w[i] - Target(batch.samples[s], i);
    }
    gradient[i] = sum / static_cast<float>(batch.count);
  }
  return gradient;
}

TestProgram::TestProgram(const ProgramOptions& options)
    : floats_(options.floats), initial_(options.initial) {
  const uint64_t shape[] = {options.floats / 2, 2};
  const monsoon_tensor tensors[] = {{.name = "w",
                                     .shape = shape,
                                     .dimensions = 2,
                                     .kind = options.kind,
                                     .aliases = nullptr,
                                     .alias_count = 0}};
  monsoon_join_options join{};
  join.size = sizeof(join);
  join.coordinator = options.coordinator.c_str();
  join.job = options.settings.c_str();
  join.tensors = tensors;
  join.tensor_count = 1;
  join.sidecar = "worker/sidecar/monsoon_sidecar";  // beside the test, in its runfiles
  join.only_enter = options.only_enter ? 1 : 0;
  Note(monsoon_join(&join, &replica_));
}

TestProgram::~TestProgram() {
  if (replica_ != nullptr) {
    monsoon_free(replica_);
  }
}

bool TestProgram::Note(monsoon_code code) {
  code_ = code;
  if (code != MONSOON_OK) {
    error_ = monsoon_last_error();
  }
  return code == MONSOON_OK;
}

monsoon_stats TestProgram::stats() const {
  monsoon_stats stats{};
  stats.size = sizeof(stats);
  monsoon_get_stats(replica_, &stats);
  return stats;
}

bool TestProgram::Settle() {
  while (event_.kind == MONSOON_EVALUATE) {
    const float* const w = monsoon_evaluated(replica_);
    std::vector<monsoon_metric> metrics;
    if (evaluate) {
      metrics = evaluate(w);
    } else {
      double sum = 0;
      for (size_t i = 0; i < floats_; ++i) {
        sum += w[i] * w[i];
      }
      metrics = {{"loss", std::sqrt(sum)}};
    }
    if (!Note(monsoon_report_evaluation(replica_, metrics.data(), metrics.size(), nullptr,
                                        &event_))) {
      return false;
    }
  }
  return true;
}

bool TestProgram::Begin() {
  const std::vector<float> values = initial();
  std::memcpy(parameters(), values.data(), floats_ * sizeof(float));
  return Note(monsoon_begin(replica_, &event_)) && Settle();
}

monsoon_batch TestProgram::Draw() {
  monsoon_batch batch{};
  if (!Note(monsoon_draw(replica_, &batch, &event_)) || !Settle()) {
    return monsoon_batch{};
  }
  return batch;
}

bool TestProgram::Step(const monsoon_batch& batch) {
  const std::vector<float> w(parameters(), parameters() + floats_);
  const std::vector<float> gradient = GradientOf(batch, w);
  std::memcpy(monsoon_gradient(replica_), gradient.data(), floats_ * sizeof(float));
  monsoon_step_info step{};
  step.size = sizeof(step);
  step.batches = 1;
  step.loss = 1;
  step.has_loss = 1;
  step.zero_gradient = 1;
  return Note(monsoon_step(replica_, &step, &event_)) && Settle();
}

bool TestProgram::LocalStep(const monsoon_batch& batch, float rate) {
  const std::vector<float> w(parameters(), parameters() + floats_);
  const std::vector<float> gradient = GradientOf(batch, w);
  for (size_t i = 0; i < floats_; ++i) {
    parameters()[i] -= rate * gradient[i];
  }
  monsoon_step_info step{};
  step.size = sizeof(step);
  step.batches = 1;
  return Note(monsoon_step(replica_, &step, &event_)) && Settle();
}

bool TestProgram::Train(const std::function<void(const monsoon_batch&)>& seen, float local_rate) {
  while (event_.kind != MONSOON_ENDED) {
    const monsoon_batch batch = Draw();
    if (code_ != MONSOON_OK) {
      return false;
    }
    if (batch.count == 0) {
      continue;
    }
    const bool stepped = local_rate > 0 ? LocalStep(batch, local_rate) : Step(batch);
    if (!stepped) {
      return false;
    }
    if (seen && event_.discarded == 0) {
      seen(batch);
    }
  }
  return true;
}

bool TestProgram::Leave() { return Note(monsoon_leave(replica_)); }

}  // namespace monsoon::testing
