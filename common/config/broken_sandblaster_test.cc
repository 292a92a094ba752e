// Sandblaster jobs that are wrong, and every line that is said about each.
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

constexpr char kTest[] =
    "test { idx { images: \"test-images.idx\" labels: \"test-labels.idx\" } scale: 2 }\n";
constexpr char kDownpour[] = "\ndownpour { optimizer { sgd { rate: 0.1 } } }";

// The valid job from its training data to its sample.
std::string DataToSample() {
  const std::string job = ValidSandblasterJob();
  const size_t begin = job.find("train {");
  return job.substr(begin, job.find("  chunk_examples") - begin);
}

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"LongHistory",
       "history: 5",
       "history: 21",
       {"FILE:7:12: error: sandblaster.history: 21 is more than 20"}},
      {"HalfPrecision",
       "batch_size: 4",
       "compute_precision: FLOAT16 batch_size: 4",
       {"FILE:5:20: error: compute_precision: FLOAT16 is for Downpour SGD: Sandblaster's line "
        "search "
        "needs the digits of float32 products; write FLOAT32, or TF32 with a gradient_tolerance of "
        "1e-3 or more"}},
      {"DropoutIsAnotherFunctionAtEachStep",
       "batch-model.textproto",
       "model.textproto",
       {"DIR/model.textproto:7:9: error: model.layer[4].dropout: Sandblaster minimises one "
        "function of the parameters, and dropout draws another one at each step; remove the "
        "layer, or sandblaster { } and train with downpour { } alone"}},
      {"SoIsAugmentationInAChain",
       "model_file: \"batch-model.textproto\"",
       "model { input_shape: [1, 4, 4] layer { augment { flip: true } } layer { flatten {} } "
       "layer { dense { units: 10 } } } stop { epochs: 1 } "
       "downpour { optimizer { sgd { rate: 0.1 } } }",
       {"FILE:2:40: error: model.layer[0].augment: Sandblaster minimises one function of the "
        "parameters, and augment draws another one at each step; remove the layer, or sandblaster "
        "{ } and train with downpour { } alone"}},
      {"NegativeL2",
       "l2: 0.01",
       "l2: -0.01",
       {"FILE:8:7: error: sandblaster.l2: -0.01 is not a finite number of at least 0"}},
      {"L2OfWeightsWithoutL2",
       "l2: 0.01",
       "l2_weights_only: true",
       {"FILE:8:20: error: sandblaster.l2_weights_only: means nothing without l2"}},
      {"NanL2",
       "l2: 0.01",
       "l2: nan",
       {"FILE:8:7: error: sandblaster.l2: nan is not a finite number"}},
      {"HugeL2",
       "l2: 0.01",
       "l2: 1e39",
       {"FILE:8:7: error: sandblaster.l2: 1e+39 is not a finite number of at least 0"}},
      {"NegativeTolerance",
       "l2: 0.01",
       "gradient_tolerance: -1e-5",
       {"FILE:8:23: error: sandblaster.gradient_tolerance: -1e-05 is not a finite number of at "
        "least 0"}},
      {"UnknownAlgorithm",
       "l2: 0.01",
       "algorithm: LBFG",
       {"FILE:8:14: error: sandblaster.algorithm: expected one of LBFGS, NONLINEAR_CG, "
        "GRADIENT_DESCENT, found LBFG; did you mean \"LBFGS\"?"}},
      {"WolfeConstantsSwapped",
       "c1: 0.001 c2: 0.5",
       "c1: 0.4 c2: 0.0001",
       {"FILE:9:21: error: sandblaster.line_search.c1: c1 (0.4) must be below c2 (0.0001); the "
        "usual values are c1: 0.0001 c2: 0.9"}},
      {"OneWolfeConstantBelowTheDefaultOfTheOther",
       "c1: 0.001 c2: 0.5",
       "c2: 0.00005",
       {"FILE:9:21: error: sandblaster.line_search.c2: c1 (0.0001) must be below c2 (5e-05); the "
        "usual values are c1: 0.0001 c2: 0.9"}},
      {"WolfeConstantsOutside",
       "c1: 0.001 c2: 0.5",
       "c1: -1 c2: 1",
       {"FILE:9:21: error: sandblaster.line_search.c1: -1 is outside (0, 0.5)",
        "FILE:9:28: error: sandblaster.line_search.c2: 1 is outside (0, 1)"}},
      {"SufficientDecreaseOfMoreThanAQuadraticHas",
       "c1: 0.001 c2: 0.5",
       "c1: 0.5 c2: 0.9",
       {"FILE:9:21: error: sandblaster.line_search.c1: 0.5 is outside (0, 0.5)"}},
      {"EndlessLineSearch",
       "c1: 0.001",
       "max_evaluations: 100000",
       {"FILE:9:34: error: sandblaster.line_search.max_evaluations: 100000 is more than 1000"}},
      {"SampleLargerThanData",
       "sample_examples: 80",
       "sample_examples: 101",
       {"FILE:10:20: error: sandblaster.sample_examples: a sample of 101 is larger than the "
        "training data of 100; leave it out to take all"}},
      {"ChunkNotAMultiple",
       "chunk_examples: 8",
       "chunk_examples: 10",
       {"FILE:11:19: error: sandblaster.chunk_examples: 10 is not a multiple of batch_size (4); "
        "write chunk_examples: 12"}},
      {"HugeChunk",
       "chunk_examples: 8",
       "chunk_examples: 4000000000",
       {"FILE:11:19: error: sandblaster.chunk_examples: 4000000000 is more than 1048576"}},
      {"TooManyContributions",
       DataToSample(),
       "train { synthetic { examples: 1000000 classes: 10 } }\nbatch_size: 4\nsandblaster {\n",
       {"FILE:7:28: error: sandblaster.chunks_per_contribution: 125000 chunks in runs of 2 make "
        "62500 contributions, the limit is 16384; write at least chunks_per_contribution: 8, or "
        "leave it out",
        "FILE:8:30: error: sandblaster.evaluate_every_iterations: there is no test data to "
        "evaluate on; add test { idx { ... } }",
        "FILE:10:1: error: evaluation: there is no test data to evaluate on; add test { idx { ... "
        "} }"}},
      {"HugeContributions",
       "chunks_per_contribution: 2",
       "chunks_per_contribution: 4096",
       {"FILE:12:28: error: sandblaster.chunks_per_contribution: 4096 is more than 2048"}},
      {"EvaluationWithoutTestData",
       kTest,
       "",
       {"FILE:12:30: error: sandblaster.evaluate_every_iterations: there is no test data to "
        "evaluate on; add test { idx { ... } }",
        "FILE:14:1: error: evaluation: there is no test data to evaluate on; add test { idx { ... "
        "} }"}},
      {"EpochsOfNothing",
       "evaluation { batch_size: 10 }",
       "evaluation { every_epochs: 1 }",
       {"FILE:15:28: error: evaluation.every_epochs: it counts epochs of Downpour SGD, and the "
        "job has none; write evaluate_every_iterations inside sandblaster { }"}},
      {"StopWithoutDownpour",
       "evaluation { batch_size: 10 }",
       "stop { epochs: 2 }",
       {"FILE:15:1: error: stop: it ends Downpour SGD, and Sandblaster ends by itself; remove it; "
        "sandblaster.max_iterations is the limit, and sandblaster.target_accuracy ends it "
        "earlier"}},
      {"TargetWithoutRuns",
       "evaluate_every_iterations: 10",
       "target_accuracy: 0.9",
       {"FILE:13:20: error: sandblaster.target_accuracy: it is checked after runs over the test "
        "set during the training, and the job has none; add test { ... } and "
        "sandblaster.evaluate_every_iterations"}},
      {"TargetAboveOne",
       "evaluate_every_iterations: 10",
       "evaluate_every_iterations: 10 target_accuracy: 1.5",
       {"FILE:13:50: error: sandblaster.target_accuracy: 1.5 is outside (0, 1]"}},
      {"ChainWithoutStop",
       "evaluation { batch_size: 10 }",
       kDownpour,
       {"FILE:1:1: error: stop: the job would never end: it has no stop condition; add stop { "
        "epochs: 10 }"}},
      {"ChainOfDifferentReplicas",
       "evaluation { batch_size: 10 }",
       "downpour { workers: 2 optimizer { sgd { rate: 0.1 } } } stop { epochs: 1 }",
       {"FILE:6:1: error: sandblaster.workers: 0 is not downpour.workers (2): both parts of a "
        "chain have the same workers; write workers: 2"}},
      {"SyntheticObjective",
       "history: 5",
       "synthetic { condition: 100 }",
       {"FILE:7:3: error: sandblaster.synthetic: Sandblaster has no field \"synthetic\""}},
      {"MisspeltMode",
       "sandblaster {",
       "sandblastr {",
       {"FILE:6:1: error: sandblastr: Job has no field \"sandblastr\"; did you mean "
        "\"sandblaster\"?"}},
      {"FieldOfLineSearchOneLevelTooHigh",
       "history: 5",
       "c1: 0.001",
       {"FILE:7:3: error: sandblaster.c1: Sandblaster has no field \"c1\"; write it inside "
        "\"line_search { }\""}},
      {"NoTrainingData",
       "train { idx { images: \"images.idx\" labels: \"labels.idx\" } }",
       "",
       {"FILE:1:1: error: train: the job has no training data; add train { idx { ... } }"}},
  };
  return *cases;
}

class BrokenSandblasterJob : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenSandblasterJob, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidSandblasterJob(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadJob(path, {}, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenSandblasterJob, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
