// Job files that are wrong, and every line that is said about each.
#include "common/config/config_test_util.h"
#include "common/config/job.h"
#include "gtest/gtest.h"

namespace monsoon::testing {
namespace {

std::string ModeText() {
  const size_t begin = ValidJob().find("downpour {");
  return ValidJob().substr(begin, ValidJob().find("stop {") - begin);
}

const std::vector<BrokenFile>& Cases() {
  static const auto* const cases = new std::vector<BrokenFile>{
      {"UnknownPrecision",
       "seed: 7",
       "compute_precision: HALF",
       {"FILE:5:20: error: compute_precision: expected one of FLOAT32, TF32, BFLOAT16, FLOAT16, "
        "found HALF; write FLOAT16"}},
      {"OptimizerThatIsNotThere",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "nadam { rate: 0.001 }",
       {"FILE:11:5: error: downpour.optimizer.nadam: Optimizer has no field \"nadam\"; there are "
        "sgd, momentum, nesterov, adagrad, adam, adam_w, lion and rms_prop"}},
      {"WorkersOnceCalledReplicas",
       "n_fetch: 2",
       "replicas: 2",
       {"FILE:8:3: error: downpour.replicas: Downpour has no field \"replicas\"; write workers: it "
        "counts worker processes; how many replicas each has is said in the cluster file (worker { "
        "replicas: N })"}},
      {"GraceOfARound",
       "n_fetch: 2",
       "rounds { quorum: 1 grace: 2 }",
       {"FILE:8:22: error: downpour.rounds.grace: Rounds has no field \"grace\"; write "
        "grace_seconds"}},
      {"QuorumWithoutARound",
       "n_fetch: 2",
       "quorum: 1",
       {"FILE:8:3: error: downpour.quorum: Downpour has no field \"quorum\"; write rounds "
        "{ quorum: 1 grace_seconds: 2 }"}},
      {"NanRate",
       "rate: 0.1 ",
       "rate: nan ",
       {"FILE:11:22: error: downpour.optimizer.momentum.rate: nan is not a finite number"}},
      {"InfRate",
       "rate: 0.1 ",
       "rate: -inf ",
       {"FILE:11:22: error: downpour.optimizer.momentum.rate: -inf is not a finite number"}},
      {"OverflowingRate",
       "rate: 0.1 ",
       "rate: 1e999 ",
       {"FILE:11:22: error: downpour.optimizer.momentum.rate: 1e999 is too large for a finite "
        "number"}},
      {"RateInQuotes",
       "rate: 0.1 ",
       "rate: \"0.1\" ",
       {"FILE:11:22: error: downpour.optimizer.momentum.rate: expected a number, found \"0.1\"; "
        "write 0.1 without quotes"}},
      {"TwoOfAOneof",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "momentum { rate: 0.1 momentum: 0.9 }\n    adagrad { rate: 0.03 }",
       {"FILE:12:5: error: downpour.optimizer.adagrad: only one of sgd, momentum, adagrad, "
        "adam, adam_w, rms_prop, nesterov, lion may be set, and \"momentum\" is on line 11; keep "
        "one of them"}},
      {"FieldOneLevelTooHigh",
       "seed: 7",
       "n_push: 7",
       {"FILE:5:1: error: n_push: Job has no field \"n_push\"; write it inside \"downpour { }\""}},
      {"FieldOneLevelTooLow",
       "n_fetch: 2",
       "batch_size: 2",
       {"FILE:8:3: error: downpour.batch_size: Downpour has no field \"batch_size\"; move it out: "
        "it is a field of Job"}},
      {"LongerNameOfAField",
       "rate: 0.1 ",
       "learning_rate: 0.1 ",
       {"FILE:11:16: error: downpour.optimizer.momentum.learning_rate: Momentum has no field "
        "\"learning_rate\"; did you mean \"rate\"?"}},
      {"SeedOverUint64",
       "seed: 7",
       "seed: 18446744073709551616",
       {"FILE:5:7: error: seed: 18446744073709551616 is out of range 0 .. 18446744073709551615"}},
      {"ZeroBatch",
       "batch_size: 4",
       "batch_size: 0",
       {"FILE:6:13: error: batch_size: must be at least 1; as in batch_size: 64"}},
      {"NoBatch",
       "batch_size: 4",
       "",
       {"FILE:1:1: error: batch_size: must be at least 1; as in batch_size: 64"}},
      {"BatchLargerThanData",
       "batch_size: 4",
       "batch_size: 104 ",
       {"FILE:6:13: error: batch_size: a batch of 104 is larger than the training data of 100",
        "FILE:17:17: error: block_examples: 8 is not a multiple of batch_size (104); write "
        "block_examples: 104"}},
      {"BlockNotAMultiple",
       "block_examples: 8",
       "block_examples: 10",
       {"FILE:17:17: error: block_examples: 10 is not a multiple of batch_size (4); write "
        "block_examples: 12"}},
      {"ZeroRate",
       "rate: 0.1 ",
       "rate: 0 ",
       {"FILE:11:22: error: downpour.optimizer.momentum.rate: 0 is not positive and finite"}},
      {"NegativeRate",
       "rate: 0.1 ",
       "rate: -0.1 ",
       {"FILE:11:22: error: downpour.optimizer.momentum.rate: -0.1 is not positive and finite"}},
      {"MomentumOfOne",
       "momentum: 0.9",
       "momentum: 1",
       {"FILE:11:36: error: downpour.optimizer.momentum.momentum: 1 is outside [0, 1)"}},
      {"ScheduleFactor",
       "factor: 0.5",
       "factor: 1.5",
       {"FILE:12:48: error: downpour.optimizer.schedule.step.factor: 1.5 is outside (0, 1]"}},
      {"ScheduleEveryZero",
       "every_pushes: 10",
       "every_pushes: 0",
       {"FILE:12:37: error: downpour.optimizer.schedule.step.every_pushes: must be at least 1"}},
      {"CosineFinal",
       "step { every_pushes: 10 factor: 0.5 }",
       "cosine { pushes: 100 final: 2 }",
       {"FILE:12:44: error: downpour.optimizer.schedule.cosine.final: 2 is outside [0, 1]"}},
      {"NegativeClip",
       "schedule {",
       "clip_value: -1 schedule {",
       {"FILE:12:17: error: downpour.optimizer.clip_value: -1 is not a finite number of at least "
        "0"}},
      {"NegativeDecay",
       "schedule {",
       "weight_decay: -0.5 schedule {",
       {"FILE:12:19: error: downpour.optimizer.weight_decay: -0.5 is not a finite number of at "
        "least 0"}},
      {"LocalUpdateRate",
       "overlap: NONE",
       "local_update { sgd_rate: 0 }",
       {"FILE:9:28: error: downpour.local_update.sgd_rate: 0 is not positive and finite"}},
      {"TopKFetch",
       "overlap: NONE",
       "fetch_format: TOP_K",
       {"FILE:9:17: error: downpour.fetch_format: TOP_K sends a part of a gradient, not "
        "parameters; FLOAT32, BFLOAT16, FLOAT16 or INT8"}},
      {"Int4Fetch",
       "overlap: NONE",
       "push_format: INT4 fetch_format: INT4",
       {"FILE:9:35: error: downpour.fetch_format: INT4: parameters rounded anew at each fetch to "
        "4 bits do not train; INT8 or wider; push_format may be INT4"}},
      {"TopK2BitFetch",
       "overlap: NONE",
       "push_format: TOP_K_2BIT fetch_format: TOP_K_2BIT",
       {"FILE:9:41: error: downpour.fetch_format: TOP_K_2BIT sends a part of a gradient, not "
        "parameters; FLOAT32, BFLOAT16, FLOAT16 or INT8"}},
      {"TopKShareAlone",
       "overlap: NONE",
       "top_k_share: 0.1",
       {"FILE:9:16: error: downpour.top_k_share: means nothing without push_format: TOP_K or "
        "TOP_K_2BIT"}},
      {"TopKShareAboveOne",
       "overlap: NONE",
       "push_format: TOP_K top_k_share: 1.5",
       {"FILE:9:35: error: downpour.top_k_share: 1.5 is outside (0, 0.5]; FLOAT32 is smaller"}},
      {"TopK2BitShareAboveHalf",
       "overlap: NONE",
       "push_format: TOP_K_2BIT top_k_share: 0.6",
       {"FILE:9:40: error: downpour.top_k_share: 0.6 is outside (0, 0.5]; INT4 is smaller"}},
      {"DynamicLocalStepsAlone",
       "overlap: NONE",
       "local { dynamic: true }",
       {"FILE:9:3: error: downpour.local.steps: says nothing of how many steps a difference has; "
        "as in local { steps: 50 }"}},
      {"FragmentsAlone",
       "n_fetch: 2",
       "local { fragments { count: 4 } }",
       {"FILE:8:3: error: downpour.local.steps: says nothing of how many steps a difference has; "
        "as in local { steps: 50 }"}},
      {"OneFragment",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } fragments { count: 1 } }",
       {"FILE:8:65: error: downpour.local.fragments.count: must be at least 2"}},
      {"MoreFragmentsThanSteps",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } fragments { count: 9 } }",
       {"FILE:8:65: error: downpour.local.fragments.count: 9 is more than local.steps (8), in "
        "which each fragment is pushed once; at most 8 here"}},
      {"LandingWithoutOverlap",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } landing_steps: 2 }",
       {"FILE:8:61: error: downpour.local.landing_steps: with overlap NONE what is fetched lands "
        "at once; leave one of them out"}},
      {"RoundsOfFragmentsInTurn",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } fragments { count: 2 } } rounds { }",
       {"FILE:9:12: error: downpour.overlap: NONE: workers that are at different fragments would "
        "wait for each other's rounds; leave it out: fragments of rounds land when their round is "
        "over"}},
      {"LandingOfRounds",
       "n_fetch: 2\n  overlap: NONE",
       "local { steps: 8 inner { sgd { rate: 1 } } fragments { count: 2 } landing_steps: 2 } "
       "rounds { }",
       {"FILE:8:84: error: downpour.local.landing_steps: with rounds a fragment lands when its "
        "round is over; leave it out"}},
      {"LateLanding",
       "n_fetch: 2\n  overlap: NONE",
       "local { steps: 8 inner { sgd { rate: 1 } } fragments { count: 2 } landing_steps: 5 }",
       {"FILE:8:84: error: downpour.local.landing_steps: 5 is more than the 4 steps between two "
        "pushes; at most 4 here"}},
      {"ChangesAlone",
       "n_fetch: 2",
       "fetch_changes: INT4",
       {"FILE:8:18: error: downpour.fetch_changes: means nothing without local steps; as in "
        "local { steps: 100 }; of parameters that are fetched at each step say fetch_format"}},
      {"ChangesOfTopK",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } } fetch_changes: TOP_K",
       {"FILE:8:63: error: downpour.fetch_changes: TOP_K leaves most of a change out; INT4, INT8, "
        "BFLOAT16 or FLOAT16"}},
      {"ChangesAndAFormat",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } } fetch_changes: INT4 fetch_format: INT8",
       {"FILE:8:82: error: downpour.fetch_format: with fetch_changes parameters travel as changes, "
        "and whole only as they are; leave one of them out"}},
      {"MixingOfOne",
       "n_fetch: 2",
       "local { steps: 8 inner { sgd { rate: 1 } } mixing: 1 }",
       {"FILE:8:54: error: downpour.local.mixing: 1 is outside [0, 1)"}},
      {"UnknownFormat",
       "overlap: NONE",
       "push_format: INT2",
       {"FILE:9:16: error: downpour.push_format: expected one of FLOAT32, BFLOAT16, FLOAT16, INT8, "
        "TOP_K, INT4, TOP_K_2BIT, found INT2; did you mean \"INT8\"?"}},
      {"HugeFetchInterval",
       "n_fetch: 2",
       "n_fetch: 100000",
       {"FILE:8:12: error: downpour.n_fetch: 100000 is more than 65536"}},
      {"HugePushInterval",
       "n_fetch: 2",
       "n_push: 4000000000",
       {"FILE:8:11: error: downpour.n_push: 4000000000 is more than 65536"}},
      {"EmptyWarmstart",
       "overlap: NONE",
       "warmstart { }",
       {"FILE:9:3: error: downpour.warmstart: neither steps nor seconds is set; as in warmstart { "
        "steps: 100 }"}},
      {"NoOptimizer",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "",
       {"FILE:10:3: error: downpour.optimizer: no optimizer is chosen: sgd, momentum, nesterov, "
        "adagrad, adam, adam_w, lion or rms_prop; as in optimizer { adagrad { rate: 0.03 } }"}},
      {"NesterovsShare",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "nesterov { rate: 0.7 momentum: 0.9 period: 4 share: 0.3 }",
       {"FILE:11:57: error: downpour.optimizer.nesterov.share: 0.3 is outside [0, 1 / period]; at "
        "most 0.25 here"}},
      {"NesterovsPeriod",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "nesterov { rate: 0.7 momentum: 0.9 period: 65537 }",
       {"FILE:11:48: error: downpour.optimizer.nesterov.period: 65537 is more than 65536"}},
      {"NoMode",
       ModeText(),
       "",
       {"FILE:1:1: error: downpour: the job has no mode; add downpour { optimizer { ... } } or "
        "sandblaster { }"}},
      {"NoStop",
       "stop { epochs: 2 target_accuracy: 0.9 }",
       "",
       {"FILE:1:1: error: stop: the job would never end: it has no stop condition; add stop { "
        "epochs: 10 }"}},
      {"EmptyStop",
       "epochs: 2 target_accuracy: 0.9",
       "",
       {"FILE:15:1: error: stop: the job would never end: it has no stop condition; add stop { "
        "epochs: 10 }"}},
      {"NegativeEpochs",
       "epochs: 2",
       "epochs: -2",
       {"FILE:15:16: error: stop.epochs: -2 is outside 0 .. 1e+09"}},
      {"TargetInPercent",
       "target_accuracy: 0.9",
       "target_accuracy: 90",
       {"FILE:15:35: error: stop.target_accuracy: 90 is outside (0, 1]; write target_accuracy: "
        "0.9"}},
      {"TargetNeverChecked",
       "stop { epochs: 2 target_accuracy: 0.9 }\nevaluation { every_epochs: 1 }",
       "stop { target_accuracy: 0.9 }",
       {"FILE:15:25: error: stop.target_accuracy: it is never checked: evaluation is only at the "
        "end; add evaluation { every_epochs: 1 }"}},
      {"BestByNoTest",
       "stop { epochs: 2 target_accuracy: 0.9 }\nevaluation { every_epochs: 1 }",
       "stop { epochs: 2 }\ncheckpoint { keep_best: TEST_ACCURACY }",
       {"FILE:16:25: error: checkpoint.keep_best: the only test is that of the final parameters; "
        "add evaluation { every_epochs: 1 }"}},
      {"BestWithoutCheckpoints",
       "evaluation { every_epochs: 1 }",
       "evaluation { every_epochs: 1 }\ncheckpoint { off: true keep_best: TEST_LOSS }",
       {"FILE:17:35: error: checkpoint.keep_best: no checkpoint is made at all; leave out "
        "keep_best, or off: true"}},
      {"EvaluationWithoutTestData",
       "test { idx { images: \"test-images.idx\" labels: \"test-labels.idx\" } scale: 2 }\n",
       "",
       {"FILE:14:35: error: stop.target_accuracy: it needs test data to measure accuracy on; add "
        "test { idx { ... } }",
        "FILE:15:1: error: evaluation: there is no test data to evaluate on; add test { idx { ... "
        "} }"}},
      {"NoTrainingData",
       "train { idx { images: \"images.idx\" labels: \"labels.idx\" } }",
       "",
       {"FILE:1:1: error: train: the job has no training data; add train { idx { ... } }"}},
      {"NoSource",
       "idx { images: \"images.idx\" labels: \"labels.idx\" }",
       "",
       {"FILE:3:1: error: train: names no source: set one of idx, npy, npz, cifar10, text, "
        "csv, libsvm, image_folder, synthetic"}},
      {"MissingDataFile",
       "\"images.idx\"",
       "\"imges.idx\"",
       {"FILE:3:23: error: train.idx.images: cannot read DIR/imges.idx: No such file or "
        "directory"}},
      {"LabelsNotNamed",
       "labels: \"labels.idx\" ",
       "",
       {"FILE:3:9: error: train.idx.labels: no file is named"}},
      {"DataFileIsAFolder",
       "\"images.idx\"",
       "\".\"",
       {"FILE:3:23: error: train.idx.images: cannot read DIR/: it is a directory"}},
      {"WrongMagic",
       "\"images.idx\"",
       "\"not-idx.idx\"",
       {"FILE:3:23: error: train.idx.images: DIR/not-idx.idx is not an IDX file: found magic "
        "89504e47, expected 00000803 for images or 00000801 for labels"}},
      {"LabelsForImages",
       "images: \"images.idx\" labels: \"labels.idx\"",
       "images: \"labels.idx\" labels: \"images.idx\"",
       {"FILE:3:23: error: train.idx.images: DIR/labels.idx holds labels (magic 00000801), not "
        "images (magic 00000803)",
        "FILE:3:44: error: train.idx.labels: DIR/images.idx holds 3-dimensional data [100, 4, 4] "
        "(magic 00000803), not labels (magic 00000801)"}},
      {"CutDataFile",
       "\"images.idx\"",
       "\"cut-images.idx\"",
       {"FILE:3:23: error: train.idx.images: DIR/cut-images.idx: the header promises 1616 bytes, "
        "the file has 1000"}},
      {"CountsDiffer",
       "\"labels.idx\"",
       "\"few-labels.idx\"",
       {"FILE:3:44: error: train.idx.labels: DIR/images.idx has 100 samples, but "
        "DIR/few-labels.idx has 99 labels"}},
      {"TestShapeDiffers",
       "\"test-images.idx\"",
       "\"wide-images.idx\"",
       {"FILE:4:22: error: test.idx.images: samples are [5, 5] (25 values), the model's "
        "input_shape is [1, 4, 4] (16)"}},
      {"SamplesInAnotherOrder",
       "\"test-images.idx\"",
       "\"last-images.idx\"",
       {"FILE:4:22: error: test.idx.images: samples are [4, 2, 2], the model's input_shape is [1, "
        "4, 4]: as many values, in another order"}},
      {"NoChannelsToBeLast",
       "scale: 2 }",
       "scale: 2 layout: NHWC }",
       {"FILE:4:22: error: test.idx.images: samples are [4, 4], and layout: NHWC is for samples of "
        "[height, width, channels]; leave layout out"}},
      {"LabelsOfStepsForAModelWithoutSteps",
       "idx { images: \"test-images.idx\" labels: \"test-labels.idx\" }",
       "text { file: \"images.idx\" window: 16 }",
       {"FILE:4:21: error: test.text.file: there are 16 labels a sample, the model has 1"}},
      {"TargetsForALossOfLabels",
       "idx { images: \"test-images.idx\" labels: \"test-labels.idx\" }",
       "npy { images: \"floats.npy\" labels: \"targets.npy\" }",
       {"FILE:4:43: error: test.npy.labels: there are targets, the loss is of labels; floats are "
        "targets; write labels as integers, labels.astype(numpy.int64)"}},
      {"SyntheticHasNoLayout",
       "idx { images: \"test-images.idx\" labels: \"test-labels.idx\" } scale: 2",
       "synthetic { examples: 10 classes: 10 } layout: NHWC",
       {"FILE:4:55: error: test.layout: synthetic samples are made in the model's order; leave it "
        "out"}},
      {"DecayOfWeightsWithoutDecay",
       "    schedule {",
       "    weight_decay_weights_only: true schedule {",
       {"FILE:12:32: error: downpour.optimizer.weight_decay_weights_only: means nothing without "
        "weight_decay"}},
      {"AdamWWithAnotherDecay",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "adam_w { rate: 0.1 } weight_decay: 0.1",
       {"FILE:11:40: error: downpour.optimizer.weight_decay: adam_w has a weight_decay of its own; "
        "as in adam_w { rate: 0.001 weight_decay: 0.01 }"}},
      {"AnAverageOfAnAccumulatorThatBeginsHigh",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "adagrad { rate: 0.1 initial_accumulator: 1 } average { }",
       {"FILE:11:50: error: downpour.optimizer.average: is not for adagrad with an "
        "initial_accumulator; leave one of them out"}},
      {"AnAverageWithMoreThanAll",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "adagrad { rate: 0.1 } average { share: 1.5 }",
       {"FILE:11:44: error: downpour.optimizer.average.share: 1.5 is outside (0, 1]"}},
      {"AdamsBetaThatForgetsNothing",
       "momentum { rate: 0.1 momentum: 0.9 }",
       "adam { rate: 0.1 beta2: 1 }",
       {"FILE:11:29: error: downpour.optimizer.adam.beta2: 1 is outside [0, 1)"}},
      {"TooManyClasses",
       "model_file: \"model.textproto\"",
       "model { input_shape: 16 layer { dense { units: 9 } } }",
       {"FILE:3:44: error: train.idx.labels: there are 10 classes (labels 0 .. 9), the model has 9 "
        "outputs; give the last layer 10 outputs, or subtract 1 from labels that begin with 1",
        "FILE:4:48: error: test.idx.labels: there are 10 classes (labels 0 .. 9), the model has 9 "
        "outputs; give the last layer 10 outputs, or subtract 1 from labels that begin with 1"}},
      {"InputShapeDoesNotFitData",
       "model_file: \"model.textproto\"",
       "model { input_shape: [1, 5, 5] layer { flatten {} } layer { dense { units: 10 } } }",
       {"FILE:3:23: error: train.idx.images: samples are [4, 4] (16 values), the model's "
        "input_shape is [1, 5, 5] (25)",
        "FILE:4:22: error: test.idx.images: samples are [4, 4] (16 values), the model's "
        "input_shape is [1, 5, 5] (25)"}},
      {"NoModel",
       "model_file: \"model.textproto\"",
       "",
       {"FILE:1:1: error: model: the job has no model; add model_file: \"...\" or model { ... }"}},
      {"ModelAndModelFile",
       "model_file: \"model.textproto\"",
       "model_file: \"model.textproto\" model { input_shape: 16 layer { dense { units: 10 } } }",
       {"FILE:2:13: error: model_file: the job has a model of its own too; keep one of them"}},
      {"MissingModelFile",
       "\"model.textproto\"",
       "\"modell.textproto\"",
       {"FILE:2:13: error: model_file: DIR/modell.textproto: cannot read the file: No such file or "
        "directory"}},
      {"BrokenModelFile",
       "\"model.textproto\"",
       "\"broken-model.textproto\"",
       {"DIR/broken-model.textproto:8:42: error: model.layer[5].dense.unit: Dense has no field "
        "\"unit\"; did you mean \"units\"?"}},
      {"CheckpointTooOften",
       "block_examples: 8",
       "checkpoint { every_seconds: 0.05 }",
       {"FILE:17:29: error: checkpoint.every_seconds: 0.05 is outside 0.1 .. 86400 seconds"}},
      {"CheckpointNegative",
       "block_examples: 8",
       "checkpoint { every_seconds: -1 }",
       {"FILE:17:29: error: checkpoint.every_seconds: -1 is outside 0.1 .. 86400 seconds"}},
      {"CheckpointOverADay",
       "block_examples: 8",
       "checkpoint { every_seconds: 86401 }",
       {"FILE:17:29: error: checkpoint.every_seconds: 86401 is outside 0.1 .. 86400 seconds"}},
      {"CheckpointNotFinite",
       "block_examples: 8",
       "checkpoint { every_seconds: inf }",
       {"FILE:17:29: error: checkpoint.every_seconds: inf is not a finite number"}},
      {"CheckpointOffAndOn",
       "block_examples: 8",
       "checkpoint { off: true every_pushes: 10 }",
       {"FILE:17:38: error: checkpoint.every_pushes: means nothing with off: true; keep one of "
        "them"}},
      {"CheckpointBySteps",
       "block_examples: 8",
       "checkpoint { every_steps: 10 }",
       {"FILE:17:14: error: checkpoint.every_steps: Checkpoint has no field \"every_steps\"; write "
        "every_pushes: pushes that each shard has applied"}},
      {"CheckpointFolderInAJob",
       "block_examples: 8",
       "state_dir: \"x\"",
       {"FILE:17:1: error: state_dir: Job has no field \"state_dir\"; checkpoints are kept in the "
        "folder that the cluster file names (state_dir)"}},
      {"StripeTooLarge",
       "block_examples: 8",
       "stripe_kib: 2048",
       {"FILE:17:13: error: stripe_kib: 2048 is more than 1024"}},
      {"SpaceInJobName",
       "name: \"tiny\"",
       "name: \"my job\"",
       {"FILE:1:7: error: name: \"my job\" is not a name; use up to 64 letters, digits, '_' and "
        "'-'"}},
      {"HugeScale",
       "scale: 2",
       "scale: 1e300",
       {"FILE:4:75: error: test.scale: 1e+300 is not a finite float32"}},
      {"SyntheticWithoutClasses",
       "idx { images: \"images.idx\" labels: \"labels.idx\" }",
       "synthetic { examples: 100 }",
       {"FILE:3:9: error: train.synthetic.classes: must be at least 1"}},
  };
  return *cases;
}

class BrokenJob : public ::testing::TestWithParam<BrokenFile> {};

TEST_P(BrokenJob, EveryErrorIsTold) {
  ExpectDiagnostics(GetParam(), ValidJob(),
                    [](const std::string& path, std::vector<Diagnostic>* diagnostics) {
                      return LoadJob(path, {}, diagnostics).status();
                    });
}

INSTANTIATE_TEST_SUITE_P(Files, BrokenJob, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace monsoon::testing
