#include "worker/backend/cpu/network.h"

#include <algorithm>
#include <new>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/memory/aligned_floats.h"
#include "common/simd/simd_level.h"
#include "worker/backend/cpu/parallel.h"
#include "worker/nn/batch.h"
#include "worker/nn/check_batch.h"
#include "worker/nn/predictions.h"
#include "worker/nn/step_key.h"

namespace monsoon::cpu {
namespace {

const char* IsaName() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse4.1";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    default:
      return "other";
  }
}

// oneDNN stays where MONSOON_SIMD keeps our own loops. Once, before its first primitive.
bool LimitIsa() {
  if (SimdLevelIsLimited()) {
    switch (SupportedSimdLevels().back()) {
      case SimdLevel::kBaseline:
        dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
        break;
      case SimdLevel::kAvx2:
        dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
        break;
      case SimdLevel::kAvx512:
        break;
    }
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> CpuNetwork::Create(NetworkPlan plan, int threads) {
  CHECK_GE(threads, 1);
  [[maybe_unused]] static const bool limited = LimitIsa();
  std::unique_ptr<CpuNetwork> network(new CpuNetwork(std::move(plan), threads));
  // A step of one sample shows here, not in the first one, what cannot run; and
  // oneDNN generates the code of its matrix products now (30 ms).
  AlignedFloats parameters = AlignedFloats::NanFilled(network->plan_.parameter_floats);
  AlignedFloats gradient = AlignedFloats::NanFilled(network->plan_.parameter_floats);
  parameters.Fill(0);
  Batch batch(1, FormatFor(network->plan_));
  batch.inputs.Fill(0);
  batch.targets.Fill(0);
  batch.examples = 1;
  network->SetParameters(parameters.span());
  RETURN_IF_ERROR(network->LossAndGradient(batch, StepKey(), gradient.span()).status());
  network->entries_.clear();
  network->generation_ = 0;
  return std::unique_ptr<Network>(std::move(network));
}

void CpuNetwork::SetParameters(std::span<const float> parameters) {
  CHECK_EQ(parameters.size(), plan_.parameter_floats);
  parameters_ = parameters;
  ++generation_;
}

absl::StatusOr<CpuNetwork::Entry*> CpuNetwork::FindOrMake(size_t examples, bool training) {
  // Per thread, and primitives are made for a number of threads.
  omp_set_num_threads(threads_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.examples == examples && entry.training == training;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return &entries_.front();
  }
  Entry entry{examples, training, 0, nullptr};
  try {
    entry.sequence = std::make_unique<LayerSequence>(plan_, examples, training, threads_);
  } catch (const dnnl::error& error) {
    return absl::UnimplementedError(absl::StrCat("oneDNN cannot run this model with a batch of ",
                                                 examples, ": ", error.what()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        absl::StrCat("what the model keeps of a batch of ", examples,
                     " does not fit into this machine's memory; use a smaller batch_size"));
  }
  entries_.push_front(std::move(entry));
  if (entries_.size() > kMaxSequences) {
    entries_.pop_back();
  }
  return &entries_.front();
}

absl::StatusOr<LayerSequence*> CpuNetwork::Prepare(const Batch& batch, bool training) {
  CHECK(generation_ > 0);  // SetParameters comes first.
  ASSIGN_OR_RETURN(Entry * entry, FindOrMake(batch.examples, training));
  if (entry->generation != generation_) {
    entry->sequence->SetParameters(parameters_);
    entry->generation = generation_;
  }
  return entry->sequence.get();
}

absl::StatusOr<StepResult> CpuNetwork::LossAndGradient(const Batch& batch, const StepKey& key,
                                                       std::span<float> gradient) {
  CHECK_EQ(gradient.size(), plan_.parameter_floats);
  RETURN_IF_ERROR(CheckBatch(plan_, batch));
  ASSIGN_OR_RETURN(LayerSequence * sequence, Prepare(batch, true));
  for (const Slice& gap : plan_.gaps) {
    std::fill(gradient.begin() + gap.begin, gradient.begin() + gap.end, 0.0f);
  }
  return sequence->LossAndGradient(batch, key, gradient, ready_);
}

absl::StatusOr<EvaluationResult> CpuNetwork::Evaluate(const Batch& batch) {
  RETURN_IF_ERROR(CheckBatch(plan_, batch));
  ASSIGN_OR_RETURN(LayerSequence * sequence, Prepare(batch, false));
  return sequence->Evaluate(batch);
}

absl::Status CpuNetwork::Predict(const Batch& batch, const PredictionSpans& predictions) {
  RETURN_IF_ERROR(CheckSamples(plan_, batch));
  ASSIGN_OR_RETURN(LayerSequence * sequence, Prepare(batch, false));
  PredictionsOf(plan_.loss, sequence->Outputs(batch), predictions);
  return absl::OkStatus();
}

std::string CpuNetwork::Fingerprint() const {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat("cpu oneDNN ", version->major, ".", version->minor, ".", version->patch, " ",
                      IsaName(), " loops ", SimdLevelName(), " threads ", threads_);
}

}  // namespace monsoon::cpu
