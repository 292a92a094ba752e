#include "worker/nn/test_models.h"

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/model/initializer.h"
#include "google/protobuf/text_format.h"

namespace monsoon::testing {

Model ParseModel(const std::string& text) {
  Model model;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &model));
  return model;
}

ParameterLayout MakeLayout(const Model& model) {
  absl::StatusOr<ParameterLayout> layout = ParameterLayout::Create(model);
  CHECK_OK(layout.status());
  return *std::move(layout);
}

Model LeNet() {
  return ParseModel(R"pb(
    name: "lenet"
    input_shape: [ 1, 28, 28 ]
    layer { conv2d { filters: 20 kernel: 3 } }
    layer { relu {} }
    layer { average_pool2d { window: 2 } }
    layer { conv2d { filters: 50 kernel: 5 } }
    layer { relu {} }
    layer { average_pool2d { window: 2 } }
    layer { flatten {} }
    layer { dense { units: 128 } }
    layer { relu {} }
    layer { dense { units: 10 } }
  )pb");
}

Model Mlp() {
  return ParseModel(R"pb(
    name: "mlp"
    input_shape: [ 784 ]
    layer { dense { units: 128 } }
    layer { relu {} }
    layer { dense { units: 10 } }
  )pb");
}

std::vector<float> InitialParameters(const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> parameters(layout.size());
  Initialize(layout, seed, 0, parameters);
  return parameters;
}

Batch RandomBatch(const ParameterLayout& layout, size_t examples, uint64_t seed) {
  size_t values = 1;
  for (const uint32_t extent : layout.layers().front().input_shape) {
    values *= extent;
  }
  Batch batch(examples, values);
  batch.examples = examples;
  const PhiloxStream stream(seed, StreamKind::kTest);
  for (size_t i = 0; i < examples * values; ++i) {
    batch.inputs.data()[i] = stream.Normal(i);
  }
  const PhiloxStream labels(seed, StreamKind::kTest, 1);
  for (size_t i = 0; i < examples; ++i) {
    batch.labels[i] = labels.Below(i, layout.output_units());
  }
  return batch;
}

}  // namespace monsoon::testing
