#include "worker/client/drawn_batches.h"

#include <cstring>
#include <string_view>
#include <utility>

namespace monsoon {

void DrawnBatches::ReadLeased(FieldReader* fields) {
  const auto batches = fields->Number<uint32_t>();
  for (uint32_t i = 0; i < batches && !fields->broken(); ++i) {
    Batch batch;
    batch.epoch = fields->Number<uint32_t>();
    const std::string_view bytes = fields->Take(fields->Number<uint32_t>() * sizeof(uint32_t));
    batch.samples.resize(bytes.size() / sizeof(uint32_t));
    std::memcpy(batch.samples.data(), bytes.data(), bytes.size());
    leased_.push_back(std::move(batch));
  }
}

bool DrawnBatches::Give(monsoon_batch* batch) {
  if (leased_.empty()) {
    return false;
  }
  given_ = std::move(leased_.front());
  leased_.pop_front();
  given_sizes_.push_back(given_.samples.size());
  batch->samples = given_.samples.data();
  batch->count = given_.samples.size();
  batch->epoch = given_.epoch;
  batch->left = leased_.size();
  return true;
}

void DrawnBatches::CountStep(const monsoon_step_info& step) {
  uint64_t examples = 0;
  for (size_t i = 0; i < step.batches; ++i) {
    examples += given_sizes_.front();
    given_sizes_.pop_front();
  }
  ++uncounted_.steps;
  uncounted_.batches += static_cast<uint32_t>(step.batches);
  examples = step.examples != 0 ? step.examples : examples;
  uncounted_.examples += examples;
  if (step.has_correct != 0) {
    uncounted_.judged += examples;
    uncounted_.correct += step.correct;
  }
  if (step.has_loss != 0) {
    uncounted_.loss_sum += step.loss;
    ++uncounted_.loss_steps;
  }
}

void DrawnBatches::WriteUncounted(FieldWriter* fields) const {
  fields->Number(uncounted_.batches);
  fields->Number(uncounted_.steps);
  fields->Number(uncounted_.examples);
  fields->Number(uncounted_.judged);
  fields->Number(uncounted_.correct);
  fields->Number(static_cast<uint8_t>(uncounted_.loss_steps > 0));
  fields->Number(uncounted_.loss_steps == 0
                     ? 0.0
                     : uncounted_.loss_sum / static_cast<double>(uncounted_.loss_steps));
}

void DrawnBatches::TakeCounted() {
  steps_ += uncounted_.steps;
  examples_ += uncounted_.examples;
  uncounted_ = Uncounted();
}

void DrawnBatches::Forget() {
  leased_.clear();
  given_sizes_.clear();
  uncounted_ = Uncounted();
}

}  // namespace monsoon
