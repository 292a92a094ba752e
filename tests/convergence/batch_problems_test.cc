// Twelve batch jobs on scikit-learn's bundled data, raw and standardised, down to an
// l2 of 1e-6, each against the minimum in double: the reason that a job gives for its
// end must be true. A row a problem is printed.
#include <lbfgs.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/model/parameter_layout.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/job.pb.h"
#include "proto/model.pb.h"
#include "tests/cluster/test_cluster.h"
#include "tests/convergence/float64_network.h"
#include "worker/data/open_dataset.h"
#include "worker/nn/batch.h"

namespace monsoon {
namespace {

using testing::Float64Network;
using testing::TestCluster;

constexpr char kData[] = "tests/convergence/data/";
// What a job that says so has come near.
constexpr double kConverged = 1e-6;

struct Problem {
  std::string data;
  bool standardised = false;
  double l2 = 0.0;
  uint32_t max_iterations = 0;
  std::optional<float> constant;  // one more feature with this value
  size_t hidden_layers = 0;       // of kHidden units
};

constexpr size_t kHidden = 16;

std::vector<Problem> Problems() {
  return {
      {"iris", false, 1e-2, 1000},
      {"iris", false, 1e-6, 2000},
      {"iris", true, 1e-6, 1000},
      {"wine", false, 1e-4, 2000},
      {"wine", true, 1e-2, 1000},
      {"wine", true, 1e-6, 1000},
      {"breast_cancer", false, 1e-2, 2000},
      {"breast_cancer", false, 1e-6, 1000},
      {"breast_cancer", true, 1e-6, 2000},
      {"digits", true, 1e-4, 1000},
      {"digits", false, 1e-2, 500, 1000.0f},
      {"wine", true, 1e-4, 1000, std::nullopt, 4},
  };
}

std::string NameOf(const Problem& problem) {
  return absl::StrCat(problem.data, problem.standardised ? " standardised" : " raw",
                      problem.constant ? " with a constant" : "",
                      problem.hidden_layers > 0 ? " 5-layer ReLU" : "", " l2 ", problem.l2);
}

struct Samples {
  size_t features = 0;
  std::vector<float> values;
  std::vector<uint32_t> labels;
};

void Standardise(Samples* samples) {
  const size_t count = samples->labels.size();
  for (size_t i = 0; i < samples->features; ++i) {
    double sum = 0.0, squares = 0.0;
    for (size_t s = 0; s < count; ++s) {
      sum += samples->values[s * samples->features + i];
    }
    const double mean = sum / static_cast<double>(count);
    for (size_t s = 0; s < count; ++s) {
      const double d = samples->values[s * samples->features + i] - mean;
      squares += d * d;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(count));
    for (size_t s = 0; s < count; ++s) {
      float& value = samples->values[s * samples->features + i];
      value = static_cast<float>((value - mean) / (deviation > 0.0 ? deviation : 1.0));
    }
  }
}

absl::StatusOr<Samples> Load(const Problem& problem) {
  Samples samples;
  samples.features = problem.data == "iris"     ? 4
                     : problem.data == "wine"   ? 13
                     : problem.data == "digits" ? 64
                                                : 30;
  Dataset data;
  data.mutable_npy()->set_images(absl::StrCat(kData, problem.data, "-values.npy"));
  data.mutable_npy()->set_labels(absl::StrCat(kData, problem.data, "-labels.npy"));
  data.set_scale(problem.data == "digits" ? 255.0 : 1.0);  // bytes are divided by 255
  ASSIGN_OR_RETURN(const auto source,
                   OpenDataset(data, {{static_cast<uint32_t>(samples.features)}}));
  std::vector<uint32_t> all(source->examples());
  std::iota(all.begin(), all.end(), 0u);
  Batch batch(all.size(), samples.features);
  RETURN_IF_ERROR(source->Gather(all, &batch));
  const auto inputs = batch.inputs.span();
  const size_t width = samples.features;
  samples.features += problem.constant.has_value() ? 1 : 0;
  samples.labels.assign(batch.labels.begin(),
                        batch.labels.begin() + static_cast<ptrdiff_t>(all.size()));
  for (size_t s = 0; s < all.size(); ++s) {
    const auto row = inputs.subspan(s * width, width);
    samples.values.insert(samples.values.end(), row.begin(), row.end());
    if (problem.constant.has_value()) {
      samples.values.push_back(*problem.constant);
    }
  }
  if (problem.standardised) {
    Standardise(&samples);
  }
  return samples;
}

// A version 1 .npy file of little-endian float32.
void WriteNpy(const std::string& path, const Samples& samples) {
  std::string header = absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                                    samples.labels.size(), ", ", samples.features, "), }");
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header.push_back('\n');
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  const auto length = static_cast<uint16_t>(header.size());
  file.write(reinterpret_cast<const char*>(&length), 2);
  file << header;
  file.write(reinterpret_cast<const char*>(samples.values.data()),
             static_cast<std::streamsize>(samples.values.size() * sizeof(float)));
}

std::vector<size_t> Widths(const Problem& problem, const Samples& samples) {
  std::vector<size_t> widths = {samples.features};
  widths.insert(widths.end(), problem.hidden_layers, kHidden);
  widths.push_back(1 + *std::ranges::max_element(samples.labels));
  return widths;
}

Job MakeJob(const Problem& problem, const Samples& samples, const std::string& values) {
  Job job;
  job.set_name("batch");
  job.set_seed(3);
  const std::vector<size_t> widths = Widths(problem, samples);
  Model* const model = job.mutable_model();
  model->set_name("dense");
  model->add_input_shape(static_cast<uint32_t>(samples.features));
  for (size_t i = 1; i < widths.size(); ++i) {
    Layer* const layer = model->add_layer();
    layer->set_name(absl::StrCat("dense", i));
    Dense* const dense = layer->mutable_dense();
    dense->set_units(static_cast<uint32_t>(widths[i]));
    if (problem.hidden_layers > 0) {
      dense->mutable_weight_initializer()->mutable_fan_in_uniform();
      dense->mutable_bias_initializer()->mutable_fan_in_uniform();
    } else {
      dense->mutable_weight_initializer()->set_constant(0.0);
      dense->mutable_bias_initializer()->set_constant(0.0);
    }
    if (i + 1 < widths.size()) {
      Layer* const relu = model->add_layer();
      relu->set_name(absl::StrCat("relu", i));
      relu->mutable_relu();
    }
  }
  model->set_loss(SOFTMAX_CROSS_ENTROPY);
  job.mutable_train()->mutable_npy()->set_images(values);
  job.mutable_train()->mutable_npy()->set_labels(
      std::filesystem::absolute(absl::StrCat(kData, problem.data, "-labels.npy")));
  job.set_batch_size(128);
  job.mutable_sandblaster()->set_l2(problem.l2);
  job.mutable_sandblaster()->set_max_iterations(problem.max_iterations);
  return job;
}

// The parameters without the padding between tensors, as Float64Network has them.
std::vector<double> Dense64(const ParameterLayout& layout, const std::vector<float>& parameters) {
  std::vector<double> w;
  for (const auto& tensor : layout.tensors()) {
    const auto first = parameters.begin() + static_cast<ptrdiff_t>(tensor.offset);
    w.insert(w.end(), first, first + static_cast<ptrdiff_t>(tensor.size));
  }
  return w;
}

lbfgsfloatval_t EvaluateFor(void* network, const lbfgsfloatval_t* w, lbfgsfloatval_t* g, int n,
                            lbfgsfloatval_t) {
  const auto size = static_cast<size_t>(n);
  return (*static_cast<const Float64Network**>(network))->Evaluate({w, size}, {g, size});
}

// The minimum near `w`, in double: Newton's where there is one minimum, else liblbfgs'.
double MinimumFrom(const Float64Network& network, const Problem& problem, std::vector<double> w) {
  if (problem.hidden_layers == 0) {
    return network.NewtonMinimum(std::move(w));
  }
  const auto n = static_cast<int>(w.size());
  std::unique_ptr<lbfgsfloatval_t, decltype(&lbfgs_free)> x(lbfgs_malloc(n), &lbfgs_free);
  std::ranges::copy(w, x.get());
  lbfgs_parameter_t settings;
  lbfgs_parameter_init(&settings);
  settings.m = 30;
  settings.epsilon = 1e-12;
  lbfgsfloatval_t f = 0.0;
  const Float64Network* instance = &network;
  lbfgs(n, x.get(), &f, &EvaluateFor, nullptr, &instance, &settings);
  return f;
}

class BatchProblemsTest : public ::testing::Test {
 protected:
  BatchProblemsTest() : cluster_({.shards = 1, .workers = 1, .heartbeat_ms = 500}) {}

  void Solve(const Problem& problem) {
    ASSERT_OK_AND_ASSIGN(const Samples samples, Load(problem));
    const std::string values = absl::StrCat(::testing::TempDir(), "values.npy");
    WriteNpy(values, samples);
    const Job job = MakeJob(problem, samples, values);
    ASSERT_OK_AND_ASSIGN(const ParameterLayout layout, ParameterLayout::Create(job.model()));
    ASSERT_OK_AND_ASSIGN(const std::string id, cluster_.Submit(job));
    ASSERT_OK_AND_ASSIGN(const JobDescription end, cluster_.AwaitEnd(id, absl::Seconds(180)));
    ASSERT_EQ(end.summary().state(), SUCCEEDED) << end.summary().reason();
    ASSERT_OK_AND_ASSIGN(const std::vector<float> parameters, cluster_.Parameters(id));

    const Float64Network network(Widths(problem, samples), samples.values, samples.labels,
                                 problem.l2);
    const std::vector<double> w = Dense64(layout, parameters);
    ASSERT_EQ(w.size(), network.parameters());
    std::vector<double> gradient(w.size());
    const double ours = network.Evaluate(w, gradient);
    const double norm =
        std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    const double minimum = MinimumFrom(network, problem, w);
    const double above = ours / minimum - 1.0;
    const JobDescription::Sandblaster& batch = end.sandblaster();
    std::printf(
        "%-36s %-18s %5u iterations %5lu evaluations %6.1f s  F* %.7g, %+.1e above; |g| "
        "%.1e (told %.1e)\n  %s\n",
        NameOf(problem).c_str(), batch.end_reason().c_str(), batch.iteration(), batch.evaluations(),
        end.summary().elapsed_s(), minimum, above, norm, batch.gradient_norm(),
        batch.end_detail().c_str());
    // What the job tells is F of what it leaves.
    EXPECT_NEAR(batch.f(), ours, 1e-5 * ours);
    if (problem.standardised) {
      EXPECT_THAT(batch.end_reason(), ::testing::AnyOf("converged", "float32_precision"));
    }
    if (batch.end_reason() == "converged" || batch.end_reason() == "float32_precision") {
      EXPECT_LE(above, kConverged);
    } else if (batch.end_reason() == "stalled") {
      EXPECT_NE(batch.end_detail().find("|g|"), std::string::npos);
      EXPECT_NE(batch.end_detail().find("standardise"), std::string::npos);
    } else {
      EXPECT_EQ(batch.end_reason(), "max_iterations");
      EXPECT_EQ(batch.iteration(), problem.max_iterations);
    }
  }

  TestCluster cluster_;
};

TEST_F(BatchProblemsTest, EveryEndReasonIsTrue) {
  ASSERT_OK(cluster_.Start());
  for (const Problem& problem : Problems()) {
    SCOPED_TRACE(NameOf(problem));
    Solve(problem);
  }
}

}  // namespace
}  // namespace monsoon
