#include "common/config/config_test_util.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_replace.h"
#include "common/npz/npy_header.h"
#include "gtest/gtest.h"

namespace monsoon::testing {

std::string MakeFolder(const std::string& name) {
  const std::string folder =
      (std::filesystem::path(::testing::TempDir()) / name).lexically_normal().string();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string IdxBytes(const std::vector<uint32_t>& shape, uint32_t modulo) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  uint32_t elements = 1;
  for (const uint32_t length : shape) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<char>(length >> shift & 0xff));
    }
    elements *= length;
  }
  for (uint32_t i = 0; i < elements; ++i) {
    bytes.push_back(static_cast<char>(i % modulo));
  }
  return bytes;
}

void WriteFixtures(const std::string& folder) {
  WriteFile(folder + "/images.idx", IdxBytes({100, 4, 4}, 256));
  WriteFile(folder + "/labels.idx", IdxBytes({100}, 10));
  WriteFile(folder + "/test-images.idx", IdxBytes({20, 4, 4}, 256));
  WriteFile(folder + "/test-labels.idx", IdxBytes({20}, 10));
  WriteFile(folder + "/few-labels.idx", IdxBytes({99}, 10));
  WriteFile(folder + "/wide-images.idx", IdxBytes({20, 5, 5}, 256));
  WriteFile(folder + "/last-images.idx", IdxBytes({20, 4, 2, 2}, 256));
  WriteFile(folder + "/cut-images.idx", IdxBytes({100, 4, 4}, 256).substr(0, 1000));
  const std::vector<uint64_t> floats = {20, 16}, targets = {20};
  WriteFile(folder + "/floats.npy", NpyFloatHead(floats) + std::string(20 * 16 * 4, '\0'));
  WriteFile(folder + "/targets.npy", NpyFloatHead(targets) + std::string(20 * 4, '\0'));
  WriteFile(folder + "/not-idx.idx", "\x89PNG\r\n");
  WriteFile(folder + "/model.textproto", ValidModel());
  WriteFile(folder + "/batch-model.textproto",
            Replaced(ValidModel(), "layer { dropout { rate: 0.5 } }\n", ""));
  WriteFile(folder + "/broken-model.textproto",
            Replaced(ValidModel(), "units: 10", "units: 10 unit: 3"));
}

std::string ValidCluster() {
  return R"(name: "test"
coordinator { address: "127.0.0.1:2221" }
ps { address: "127.0.0.1:2222" memory_limit_mib: 64 }
worker { address: "127.0.0.1:2223" threads: 2 device: CPU }
worker { address: "127.0.0.1:2224" }
heartbeat_ms: 100
lost_after_ms: 1000
)";
}

std::string ValidModel() {
  return R"(name: "tiny"
input_shape: [1, 4, 4]
layer { name: "conv1" conv2d { filters: 2 kernel: 3 } }
layer { relu {} }
layer { average_pool2d { window: 2 } }
layer { name: "flatten" flatten {} }
layer { dropout { rate: 0.5 } }
layer { name: "dense1" dense { units: 10 weight_initializer { normal: 0.1 } } }
loss: SOFTMAX_CROSS_ENTROPY
)";
}

std::string ValidChaosPlan() {
  return R"(seed: 7
seconds: 30
fault { task: ["ps/0", "worker/*"] kind: KILL times: 3 pause_s { min: 1 max: 4 } }
fault { task: "worker/1" kind: STOP lasts_s { min: 0.5 max: 2 } from_s: 1 }
fault { task: "*" kind: SLOW until_the_end: true lasts_s { min: 3 } share: 0.8 await_checkpoint: true }
)";
}

std::string ValidJob() {
  return R"(name: "tiny"
model_file: "model.textproto"
train { idx { images: "images.idx" labels: "labels.idx" } }
test { idx { images: "test-images.idx" labels: "test-labels.idx" } scale: 2 }
seed: 7
batch_size: 4
downpour {
  n_fetch: 2
  overlap: NONE
  optimizer {
    momentum { rate: 0.1 momentum: 0.9 }
    schedule { step { every_pushes: 10 factor: 0.5 } }
  }
}
stop { epochs: 2 target_accuracy: 0.9 }
evaluation { every_epochs: 1 }
block_examples: 8
)";
}

std::string ValidSandblasterJob() {
  return R"(name: "batch"
model_file: "batch-model.textproto"
train { idx { images: "images.idx" labels: "labels.idx" } }
test { idx { images: "test-images.idx" labels: "test-labels.idx" } scale: 2 }
batch_size: 4
sandblaster {
  history: 5
  l2: 0.01
  line_search { c1: 0.001 c2: 0.5 }
  sample_examples: 80
  chunk_examples: 8
  chunks_per_contribution: 2
  evaluate_every_iterations: 10
}
evaluation { batch_size: 10 }
)";
}

std::string Replaced(const std::string& text, const std::string& find, const std::string& with) {
  std::string result = text;
  const size_t at = result.find(find);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no \"" << find << "\" in the text";
    return result;
  }
  return result.replace(at, find.size(), with);
}

void PrintTo(const BrokenFile& broken, std::ostream* out) { *out << broken.name; }

void ExpectDiagnostics(
    const BrokenFile& broken, const std::string& valid,
    const std::function<absl::Status(const std::string& path, std::vector<Diagnostic>*)>& load) {
  const std::string folder = MakeFolder("broken-" + broken.name);
  WriteFixtures(folder);
  const std::string path = folder + "/FILE";
  WriteFile(path, Replaced(valid, broken.find, broken.with));
  std::vector<Diagnostic> diagnostics;
  const absl::Status status = load(path, &diagnostics);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : diagnostics) {
    lines.push_back(
        absl::StrReplaceAll(FormatDiagnostic(diagnostic), {{path, "FILE"}, {folder, "DIR"}}));
  }
  EXPECT_EQ(lines, broken.lines);
  EXPECT_EQ(std::string(status.message()), std::string(DiagnosticsToStatus(diagnostics).message()));
}

}  // namespace monsoon::testing
