// Model files that are wrong, and every line that is said about each.
#include "common/config/config_test_util.h"
#include "common/config/model.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

std::string LayersText() {
  const std::string model = ValidModel();
  const size_t begin = model.find("layer {");
  return model.substr(begin, model.find("loss:") - begin);
}

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"NoLayers",
       LayersText(),
       "",
       {"FILE:1:1: error: layer: a model needs at least one layer; add layer { dense { units: 10 } "
        "}"}},
      {"NoInputShape",
       "input_shape: [1, 4, 4]",
       "",
       {"FILE:1:1: error: input_shape: the shape of a sample is not set; as in input_shape: [1, "
        "28, 28] for images or input_shape: [784]"}},
      {"ZeroInputExtent",
       "[1, 4, 4]",
       "[1, 0, 4]",
       {"FILE:2:18: error: input_shape[1]: must be at least 1"}},
      {"UnclosedList",
       "[1, 4, 4]",
       "[1, 4, 4",
       {"FILE:3:1: error: expected ',' or ']' in the list of input_shape, found layer"}},
      {"ListWithoutComma",
       "[1, 4, 4]",
       "[1 4, 4]",
       {"FILE:2:17: error: expected ',' or ']' in the list of input_shape, found 4"}},
      {"TrailingComma",
       "[1, 4, 4]",
       "[1, 4, 4,]",
       {"FILE:2:23: error: expected a value, found ']'"}},
      {"UnknownLayerKind",
       "relu {}",
       "rellu {}",
       {"FILE:4:9: error: layer[1].rellu: Layer has no field \"rellu\"; did you mean \"relu\"?"}},
      {"UnsupportedLayerKind",
       "relu {}",
       "softmax {}",
       {"FILE:4:9: error: layer[1].softmax: Layer has no field \"softmax\"; leave it out: the loss "
        "applies it to the last layer"}},
      {"ExoticLayerKind",
       "relu {}",
       "wavelet {}",
       {"FILE:4:9: error: layer[1].wavelet: Layer has no field \"wavelet\""}},
      {"EmptyLayer",
       "relu {}",
       "",
       {"FILE:4:1: error: layer[1]: the layer has no kind; as in layer { dense { units: 10 } }"}},
      {"TwoKindsInALayer",
       "relu {}",
       "relu {} tanh {}",
       {"FILE:4:17: error: layer[1].tanh: only one of dense, conv2d, average_pool2d, max_pool2d, "
        "relu, sigmoid, tanh, dropout, flatten, add, multiply, concat, locally_connected2d, "
        "local_contrast_norm, batch_norm, layer_norm, embedding, position_embedding, lstm, "
        "self_attention, gelu, global_average_pool, rescale, augment may be set, and \"relu\" is "
        "on "
        "line 4; keep one of them"}},
      {"InputOfNobody",
       "relu {}",
       "relu {} input: \"conv2\"",
       {"FILE:4:1: error: layer[1]: layer \"relu1\": input: no layer before it has the name "
        "\"conv2\""}},
      {"OutputOfNobody",
       "relu {}",
       "relu {} input: \"input\"",
       {"FILE:3:1: error: layer[0]: layer \"conv1\": no layer takes its output; the last layer's "
        "goes to the loss"}},
      {"BehindAnImagesLayerOfNoImage",
       "[1, 4, 4]",
       "[4, 4]",
       {"FILE:3:1: error: layer[0]: layer \"conv1\": conv2d needs an input [channels, height, "
        "width], got [4, 4]; images of one channel are [1, height, width]",
        "FILE:5:1: error: layer[2]: layer \"average_pool1\": pooling needs an input "
        "[channels, height, width], got [16]"}},
      {"AnInputThatIsWrongItself",
       "[1, 4, 4]\nlayer { name: \"conv1\" conv2d { filters: 2 kernel: 3 } }\nlayer { relu {} }",
       "[4, 4]\nlayer { name: \"conv1\" conv2d { filters: 2 kernel: 3 } }\n"
       "layer { input: \"conv1\" relu {} }",
       {"FILE:3:1: error: layer[0]: layer \"conv1\": conv2d needs an input [channels, height, "
        "width], got [4, 4]; images of one channel are [1, height, width]",
        "FILE:5:1: error: layer[2]: layer \"average_pool1\": pooling needs an input "
        "[channels, height, width], got [16]"}},
      {"BranchesOfOtherShapes",
       "relu {}",
       "add {} input: [\"conv1\", \"input\"]",
       {"FILE:4:1: error: layer[1]: layer \"add1\": inputs of shapes [2, 2, 2] and [1, 4, 4] "
        "cannot "
        "be joined"}},
      {"TooFewClassWeights",
       "loss:",
       "loss_settings { class_weight: [1, 2, 3, 4] } loss:",
       {"FILE:9:17: error: loss_settings.class_weight: 4 weights for 10 classes; give one for each "
        "class"}},
      {"ClassWeightThatNoWorkerCanHold",
       "loss:",
       "loss_settings { class_weight: [1e300, 2, 3, 4, 5, 6, 7, 8, 9, -1] } loss:",
       {"FILE:9:32: error: loss_settings.class_weight[0]: 1e+300 is not a finite float32 of at "
        "least 0",
        "FILE:9:63: error: loss_settings.class_weight[9]: -1 is not a finite float32 of at least "
        "0"}},
      {"ClassWeightOfSeveralQuestions",
       "loss: SOFTMAX_CROSS_ENTROPY",
       "loss_settings { class_weight: [1, 2] } loss: BINARY_CROSS_ENTROPY",
       {"FILE:9:17: error: loss_settings.class_weight: means nothing for BINARY_CROSS_ENTROPY of "
        "10 outputs: each output is a yes or no of its own in every sample, whatever its label; "
        "leave it out, or take SOFTMAX_CROSS_ENTROPY or ONE_VERSUS_ALL_LOGISTIC"}},
      {"ClassWeightOfTargets",
       "loss: SOFTMAX_CROSS_ENTROPY",
       "loss_settings { class_weight: [1, 2] } loss: MEAN_SQUARED_ERROR",
       {"FILE:9:17: error: loss_settings.class_weight: means nothing for MEAN_SQUARED_ERROR; leave "
        "it out"}},
      {"StrideThatNoBackendCanTake",
       "kernel: 3",
       "kernel: 3 stride: 4294967295",
       {"FILE:3:61: error: layer[0].conv2d.stride: 4294967295 is more than 16777216"}},
      {"PoolsStrideThatNoBackendCanTake",
       "window: 2",
       "window: 2 stride: 16777217",
       {"FILE:5:44: error: layer[2].average_pool2d.stride: 16777217 is more than 16777216"}},
      {"SmoothingOfALossWithout",
       "loss: SOFTMAX_CROSS_ENTROPY",
       "loss: MEAN_SQUARED_ERROR loss_settings { label_smoothing: 0.1 }",
       {"FILE:9:59: error: loss_settings.label_smoothing: means nothing for MEAN_SQUARED_ERROR; "
        "leave it out"}},
      {"DuplicateLayerName",
       "\"dense1\"",
       "\"conv1\"",
       {"FILE:8:15: error: layer[5].name: \"conv1\" is the name of layer[0] too; give each layer "
        "its own name"}},
      {"BadLayerName",
       "\"dense1\"",
       "\"dense/1\"",
       {"FILE:8:15: error: layer[5].name: \"dense/1\" is not a name; use up to 64 letters, digits, "
        "'_' and '-'"}},
      {"ZeroUnits",
       "units: 10",
       "units: 0",
       {"FILE:8:39: error: layer[5].dense.units: must be at least 1"}},
      {"ZeroKernel",
       "kernel: 3",
       "",
       {"FILE:3:23: error: layer[0].conv2d.kernel: must be at least 1"}},
      {"ZeroWindow",
       "window: 2",
       "",
       {"FILE:5:9: error: layer[2].average_pool2d.window: must be at least 1"}},
      {"KernelLargerThanInput",
       "kernel: 3",
       "kernel: 7",
       {"FILE:3:1: error: layer[0]: layer \"conv1\": a window of 7 does not fit an input of 4 "
        "(padding included)"}},
      {"WindowLargerThanInput",
       "window: 2",
       "window: 3",
       {"FILE:5:1: error: layer[2]: layer \"average_pool1\": a window of 3 does not fit an input "
        "of 2 (padding included)"}},
      {"DenseOnAnImage",
       "layer { name: \"flatten\" flatten {} }",
       "",
       {"FILE:8:1: error: layer[4]: layer \"dense1\": dense needs a flat input, got [2, 1, 1]; put "
        "a flatten layer before it"}},
      {"AllWrongLayersAtOnce",
       "layer { relu {} }\nlayer { average_pool2d { window: 2 } }\nlayer { name: \"flatten\" "
       "flatten "
       "{} }",
       "layer { conv2d { filters: 4 kernel: 9 } }\nlayer { average_pool2d { window: 8 } }\nlayer { "
       "dense { units: 0 } }\nlayer { max_pool2d { window: 2 } }",
       {"FILE:4:1: error: layer[1]: layer \"conv2\": a window of 9 does not fit an input of 2 "
        "(padding included)",
        "FILE:5:1: error: layer[2]: layer \"average_pool1\": a window of 8 does not fit an input "
        "of "
        "2 (padding included)",
        "FILE:6:24: error: layer[3].dense.units: must be at least 1",
        "FILE:7:1: error: layer[4]: layer \"max_pool1\": pooling needs an input [channels, height, "
        "width], got [1]",
        "FILE:9:1: error: layer[6]: layer \"dense1\": the name is used twice"}},
      {"LossOnAnImage",
       "layer { name: \"flatten\" flatten {} }\nlayer { dropout { rate: 0.5 } }\nlayer { name: "
       "\"dense1\" dense { units: 10 weight_initializer { normal: 0.1 } } }\n",
       "",
       {"FILE:5:1: error: layer[2]: layer \"average_pool1\": the loss needs a flat output, got [2, "
        "1, 1]; end with flatten or dense"}},
      {"DropoutOfOne",
       "rate: 0.5",
       "rate: 1",
       {"FILE:7:25: error: layer[4].dropout.rate: 1 is outside [0, 1)"}},
      {"NegativeDeviation",
       "normal: 0.1",
       "normal: -0.1",
       {"FILE:8:71: error: layer[5].dense.weight_initializer.normal: -0.1 is not a finite float32 "
        "of at least 0"}},
      {"UnknownLoss",
       "SOFTMAX_CROSS_ENTROPY",
       "CROSS_ENTROPY",
       {"FILE:9:7: error: loss: expected one of SOFTMAX_CROSS_ENTROPY, ONE_VERSUS_ALL_LOGISTIC, "
        "BINARY_CROSS_ENTROPY, MEAN_SQUARED_ERROR, found CROSS_ENTROPY; write "
        "SOFTMAX_CROSS_ENTROPY"}},
      {"LossOfAnotherTask",
       "SOFTMAX_CROSS_ENTROPY",
       "MSE",
       {"FILE:9:7: error: loss: expected one of SOFTMAX_CROSS_ENTROPY, ONE_VERSUS_ALL_LOGISTIC, "
        "BINARY_CROSS_ENTROPY, MEAN_SQUARED_ERROR, found MSE; write MEAN_SQUARED_ERROR"}},
  };
  return *cases;
}

class BrokenModel : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenModel, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidModel(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadModel(path, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenModel, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
