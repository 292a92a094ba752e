// Writes models as ONNX files, and what the CPU backend says of some samples:
//
//     write_cases CONFIGS OUT
//
// For each case NAME.onnx, NAME.inputs.npz with `inputs` [n, ...], and NAME.outputs.npz with
// `probabilities` [n, classes] or [n, steps, classes] (softmax of the outputs). CONFIGS is the
// folder of the presets. A line for each case: its name, and "written" or what is not built in
// yet; then it has no outputs.
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/config/model.h"
#include "common/npz/npz_writer.h"
#include "common/onnx/onnx_file.h"
#include "worker/backend/backend.h"
#include "worker/nn/test_models.h"

namespace monsoon {
namespace {

constexpr uint64_t kSeed = 7;

struct Case {
  const char* name;
  // A preset where it is empty.
  const char* text;
  size_t examples;
};

constexpr Case kCases[] = {
    {"mlp", "", 5},
    {"lenet", "", 3},
    {"cifar10", "", 2},
    {"dsn", "", 5},
    {"resnet", "", 2},
    {"batchnorm_cnn", "", 3},
    {"gpt", "", 2},
    {"pointwise", R"(input_shape: 6
       layer { name: "a" dense { units: 7 } } layer { tanh {} } layer { dropout { rate: 0.5 } }
       layer { name: "b" input: "a" sigmoid {} }
       layer { name: "c" input: ["dropout1", "b", "a"] multiply {} }
       layer { name: "d" input: ["c", "a", "b"] add {} }
       layer { gelu {} } layer { dense { units: 4 } })",
     9},
    {"images", R"(input_shape: [3, 13, 11]
       layer { name: "a" conv2d { filters: 5 kernel: 3 stride: 2 padding: 1 no_bias: true } }
       layer { name: "b" input: "input" conv2d { filters: 2 kernel: 1 stride: 2 } }
       layer { input: ["a", "b"] concat {} } layer { relu {} }
       layer { max_pool2d { window: 3 stride: 2 } } layer { average_pool2d { window: 2 stride: 1 } }
       layer { flatten {} } layer { dense { units: 4 no_bias: true } })",
     5},
    {"norms", R"(input_shape: [3, 6, 5]
       layer { conv2d { filters: 4 kernel: 2 } } layer { batch_norm { epsilon: 0.01 } }
       layer { name: "p" global_average_pool {} } layer { batch_norm { no_scale: true } }
       layer { layer_norm {} } layer { layer_norm { no_shift: true epsilon: 0.1 } }
       layer { dense { units: 3 } })",
     5},
    {"attention", R"(input_shape: [5, 8]
       layer { position_embedding { weight_initializer { normal: 1 } } }
       layer { name: "a" self_attention { heads: 2 } }
       layer { input: ["position1", "a"] concat {} }
       layer { self_attention { causal: true no_bias: true } } layer { global_average_pool {} } layer { dense { units: 3 } })",
     4},
    {"lstm", R"(input_shape: 6 layer { embedding { rows: 10 columns: 3 } }
       layer { lstm { units: 4 bidirectional: true sequences: true } }
       layer { lstm { units: 5 sequences: true } } layer { dense { units: 6 } }
       layer { lstm { units: 3 bidirectional: true } } layer { dense { units: 4 } })",
     4},
    {"crop", R"(input_shape: [2, 9, 8] layer { augment { crop: 6 shift: 1 flip: true } }
       layer { rescale { scale: 3 offset: -0.5 } } layer { flatten {} } layer { dense { units: 3 } })",
     4},
};

// Biases, norms and running values as training leaves them, not as they begin.
std::vector<float> Trained(const ParameterLayout& layout) {
  std::vector<float> parameters = testing::InitialParameters(layout, kSeed);
  const PhiloxStream noise(kSeed, StreamKind::kTest, 5);
  for (const TensorInfo& tensor : layout.tensors()) {
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      const float normal = static_cast<float>(noise.Normal(i));
      if (absl::EndsWith(tensor.name, "/variance")) {
        parameters[i] = 0.5f + normal * normal;
      } else if (tensor.is_bias || tensor.is_statistic) {
        parameters[i] += 0.3f * normal;
      }
    }
  }
  return parameters;
}

Batch Samples(const Model& model, const ParameterLayout& layout, size_t examples) {
  const std::vector<uint32_t>& output = layout.layers().back().output_shape;
  size_t values = 1;
  for (const uint32_t extent : layout.input_shape()) {
    values *= extent;
  }
  Batch batch(examples,
              SampleFormat{.values = values, .labels = output.size() == 2 ? output[0] : size_t{1}});
  batch.examples = examples;
  const PhiloxStream draws(kSeed, StreamKind::kTest);
  for (size_t i = 0; i < examples * values; ++i) {
    batch.inputs.data()[i] =
        model.layer(0).has_embedding()
            ? static_cast<float>(draws.Below(i, model.layer(0).embedding().rows()))
            : static_cast<float>(draws.Normal(i));
  }
  return batch;
}

absl::StatusOr<Model> Load(const Case& one, const std::string& configs) {
  return *one.text == '\0' ? LoadModel(absl::StrCat(configs, "/model/", one.name, ".textproto"))
                           : testing::ParseModel(one.text);
}

// `shape` behind the number of samples.
std::vector<uint32_t> OfSamples(size_t examples, std::vector<uint32_t> shape) {
  shape.insert(shape.begin(), static_cast<uint32_t>(examples));
  return shape;
}

absl::Status WriteArray(const std::string& path, const std::string& name,
                        const std::vector<uint32_t>& shape, std::span<const float> values) {
  ASSIGN_OR_RETURN(NpzWriter writer, NpzWriter::Create(path));
  RETURN_IF_ERROR(writer.Add(name, shape, values));
  return writer.Finish();
}

absl::Status Write(const Case& one, const std::string& configs, const std::string& out) {
  ASSIGN_OR_RETURN(const Model model, Load(one, configs));
  ASSIGN_OR_RETURN(const ParameterLayout layout, ParameterLayout::Create(model));
  const std::vector<float> parameters = Trained(layout);
  const std::string path = absl::StrCat(out, "/", one.name);
  RETURN_IF_ERROR(WriteOnnxFile(model, layout, parameters, path + ".onnx"));
  const Batch batch = Samples(model, layout, one.examples);
  RETURN_IF_ERROR(WriteArray(path + ".inputs.npz", "inputs",
                             OfSamples(one.examples, layout.input_shape()), batch.inputs.span()));
  ASSIGN_OR_RETURN(const std::unique_ptr<Network> network,
                   CreateNetwork(BackendKind::kCpu, model, layout, {}));
  network->SetParameters(parameters);
  const std::vector<uint32_t> shape = OfSamples(one.examples, layout.layers().back().output_shape);
  size_t count = 1;
  for (const uint32_t extent : shape) {
    count *= extent;
  }
  std::vector<float> probabilities(count);
  RETURN_IF_ERROR(network->Predict(batch, {probabilities}));
  return WriteArray(path + ".outputs.npz", "probabilities", shape, probabilities);
}

int Main(const std::string& configs, const std::string& out) {
  for (const Case& one : kCases) {
    const absl::Status status = Write(one, configs, out);
    if (!status.ok() && !absl::IsUnimplemented(status)) {
      std::fprintf(stderr, "%s: %s\n", one.name, std::string(status.message()).c_str());
      return 1;
    }
    std::printf("%s: %s\n", one.name,
                status.ok() ? "written" : std::string(status.message()).c_str());
  }
  return 0;
}

}  // namespace
}  // namespace monsoon

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_cases CONFIGS OUT\n");
    return 2;
  }
  return monsoon::Main(argv[1], argv[2]);
}
