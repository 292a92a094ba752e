// Computes with a model file on the CPU backend what compare.py asks for, a line each:
//
//   model_side MODEL.textproto BATCH THREADS FILE.npz [SEED]
//
// It writes a batch and initial parameters to FILE.npz ("batch/inputs", "batch/labels" or
// "batch/targets", and the tensors by name), says {"ready":true}, and then answers
//   check FILE2.npz   the gradient's tensors into FILE2.npz; {"loss":l}
//   steps N           N training steps: {"seconds":s}
//   evaluate N        N forward passes
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/config/model.h"
#include "common/memory/aligned_floats.h"
#include "common/model/initializer.h"
#include "common/model/parameter_layout.h"
#include "common/npz/npz_writer.h"
#include "worker/backend/backend.h"
#include "worker/nn/batch.h"
#include "worker/nn/network.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/step_key.h"

namespace monsoon {
namespace {

constexpr uint64_t kSeed = 1;

// Of ids, where the first layer is an embedding; else N(0, 1).
void FillInputs(const Model& model, Batch* batch) {
  const PhiloxStream stream(kSeed, StreamKind::kTest);
  const uint32_t rows = model.layer(0).embedding().rows();
  for (size_t i = 0; i < batch->inputs.size(); ++i) {
    batch->inputs.data()[i] =
        rows > 0 ? static_cast<float>(stream.Below(i, rows)) : stream.Normal(i);
  }
}

void FillGoals(const LossPlan& loss, Batch* batch) {
  const PhiloxStream stream(kSeed, StreamKind::kTest, 1);
  for (size_t i = 0; i < batch->labels.size(); ++i) {
    batch->labels[i] = stream.Below(i, static_cast<uint32_t>(loss.classes));
  }
  for (size_t i = 0; i < batch->targets.size(); ++i) {
    batch->targets.data()[i] = stream.Uniform(i);
  }
}

absl::Status WriteTensors(const ParameterLayout& layout, std::span<const float> values,
                          NpzWriter* file) {
  for (const TensorInfo& tensor : layout.tensors()) {
    RETURN_IF_ERROR(
        file->Add(tensor.name, tensor.shape, values.subspan(tensor.offset, tensor.size)));
  }
  return absl::OkStatus();
}

absl::Status WriteStart(const std::string& path, const ParameterLayout& layout,
                        std::span<const float> parameters, const Batch& batch) {
  ASSIGN_OR_RETURN(NpzWriter file, NpzWriter::Create(path));
  std::vector<uint32_t> shape = layout.input_shape();
  shape.insert(shape.begin(), static_cast<uint32_t>(batch.examples));
  RETURN_IF_ERROR(file.Add("batch/inputs", shape, batch.inputs.span()));
  const uint32_t examples = shape[0];
  if (batch.targets_per_example > 0) {
    RETURN_IF_ERROR(
        file.Add("batch/targets",
                 std::vector<uint32_t>{examples, static_cast<uint32_t>(batch.targets_per_example)},
                 batch.targets.span()));
  } else {
    const std::vector<float> labels(batch.labels.begin(), batch.labels.end());
    RETURN_IF_ERROR(file.Add(
        "batch/labels",
        std::vector<uint32_t>{examples, static_cast<uint32_t>(batch.labels_per_example)}, labels));
  }
  RETURN_IF_ERROR(WriteTensors(layout, parameters, &file));
  return file.Finish();
}

absl::Status Serve(const std::string& path, size_t examples, int threads, const std::string& start,
                   uint64_t seed) {
  ASSIGN_OR_RETURN(const Model model, LoadModel(path));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(model));
  ASSIGN_OR_RETURN(const NetworkPlan plan, NetworkPlan::Create(model, layout));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Network> network,
      CreateNetwork(BackendKind::kCpu, model, layout, NetworkOptions{.threads = threads}));
  AlignedFloats parameters(layout.size());
  Initialize(layout, seed, 0, parameters.span());
  AlignedFloats gradient(layout.size());
  const bool regression = plan.loss.kind == LossKind::kMeanSquaredError;
  Batch batch(examples,
              SampleFormat{.values = plan.input.size(),
                           .labels = regression ? 0 : plan.loss.steps,
                           .targets = regression ? plan.loss.steps * plan.loss.outputs : 0});
  batch.examples = examples;
  FillInputs(model, &batch);
  FillGoals(plan.loss, &batch);
  RETURN_IF_ERROR(WriteStart(start, layout, parameters.span(), batch));
  std::cout << "{\"ready\":true}" << std::endl;
  uint64_t step = 0;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what, argument;
    words >> what >> argument;
    if (what == "check") {
      network->SetParameters(parameters.span());
      ASSIGN_OR_RETURN(const StepResult result,
                       network->LossAndGradient(batch, StepKey{kSeed, 0, 0}, gradient.span()));
      ASSIGN_OR_RETURN(NpzWriter file, NpzWriter::Create(argument));
      RETURN_IF_ERROR(WriteTensors(layout, gradient.span(), &file));
      RETURN_IF_ERROR(file.Finish());
      std::cout << absl::StrCat("{\"loss\":", result.loss_mean, "}") << std::endl;
      continue;
    }
    const int count = std::atoi(argument.c_str());
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      // As after a fetch: packing belongs to the step.
      network->SetParameters(parameters.span());
      if (what == "steps") {
        RETURN_IF_ERROR(
            network->LossAndGradient(batch, StepKey{kSeed, 0, ++step}, gradient.span()).status());
      } else {
        RETURN_IF_ERROR(network->Evaluate(batch).status());
      }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    std::cout << absl::StrCat("{\"seconds\":", took.count(), "}") << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr, "usage: model_side MODEL.textproto BATCH THREADS FILE.npz [SEED]\n");
    return 2;
  }
  const uint64_t seed = argc == 6 ? std::strtoull(argv[5], nullptr, 10) : 1;
  const absl::Status status = monsoon::Serve(argv[1], static_cast<size_t>(std::atoi(argv[2])),
                                             std::atoi(argv[3]), argv[4], seed);
  if (!status.ok()) {
    std::fprintf(stderr, "model_side: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
