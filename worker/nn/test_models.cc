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

Model GptBlock() {
  return ParseModel(R"pb(
    name: "gpt_block"
    input_shape: 64
    layer {
      embedding {
        rows: 256
        columns: 128
        weight_initializer { normal: 0.02 }
      }
    }
    layer {
      name: "x0"
      position_embedding {}
    }
    layer { layer_norm {} }
    layer {
      name: "attention"
      self_attention { heads: 4 causal: true }
    }
    layer {
      name: "x1"
      input: [ "x0", "attention" ]
      add {}
    }
    layer { layer_norm {} }
    layer { dense { units: 512 } }
    layer { gelu {} }
    layer {
      name: "back"
      dense { units: 128 }
    }
    layer {
      input: [ "x1", "back" ]
      add {}
    }
    layer { layer_norm {} }
    layer { dense { units: 256 } }
  )pb");
}

Model TextClassifier() {
  return ParseModel(R"pb(
    name: "text_classifier"
    input_shape: 50
    layer { embedding { rows: 10000 columns: 128 } }
    layer { lstm { units: 64 bidirectional: true } }
    layer { dense { units: 64 } }
    layer { relu {} }
    layer { dense { units: 2 } }
  )pb");
}

std::vector<float> InitialParameters(const ParameterLayout& layout, uint64_t seed) {
  std::vector<float> parameters(layout.size());
  Initialize(layout, seed, 0, parameters);
  return parameters;
}

Batch RandomBatch(const ParameterLayout& layout, size_t examples, uint64_t seed, uint32_t ids) {
  size_t values = 1;
  for (const uint32_t extent : layout.layers().front().input_shape) {
    values *= extent;
  }
  const std::vector<uint32_t>& output = layout.layers().back().output_shape;
  const size_t steps = output.size() == 2 ? output[0] : 1;
  Batch batch(examples, SampleFormat{.values = values, .labels = steps});
  batch.examples = examples;
  const PhiloxStream stream(seed, StreamKind::kTest);
  for (size_t i = 0; i < examples * values; ++i) {
    batch.inputs.data()[i] = ids > 0 ? static_cast<float>(stream.Below(i, ids)) : stream.Normal(i);
  }
  const PhiloxStream labels(seed, StreamKind::kTest, 1);
  for (size_t i = 0; i < examples * steps; ++i) {
    batch.labels[i] = labels.Below(i, layout.output_units());
  }
  return batch;
}

}  // namespace monsoon::testing
