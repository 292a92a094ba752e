// Runs quadratic_run.h in a process of its own and writes its peak of resident
// memory in bytes, a line, and then the description as protobuf text.
#include <google/protobuf/text_format.h>

#include <cstdio>
#include <fstream>
#include <span>
#include <string>

#include "common/base/flags.h"
#include "common/base/status.h"
#include "tests/cluster/quadratic_run.h"

namespace {

constexpr uint32_t kInputs = 1000;

uint64_t PeakResidentBytes() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == "VmHWM:" && file >> kib) {
      return kib << 10;
    }
  }
  return 0;
}

absl::Status Run(std::span<const char* const> args) {
  monsoon::testing::QuadraticRun run;
  std::string out;
  uint32_t units = 100, history = 3, iterations = 200;
  monsoon::FlagSet flags("quadratic --shard=ADDRESS... --out=FILE [flags]");
  flags.Add("shard", &run.shards, "the address of a parameter server");
  flags.Add("units", &units, "of a dense layer of 1000 inputs");
  flags.Add("history", &history, "of L-BFGS");
  flags.Add("iterations", &iterations, "at most");
  flags.Add("out", &out, "where the result goes");
  RETURN_IF_ERROR(flags.Parse(args).status());
  run.model.add_input_shape(kInputs);
  monsoon::Dense* const dense = run.model.add_layer()->mutable_dense();
  dense->set_units(units);
  dense->set_no_bias(true);
  dense->mutable_weight_initializer()->set_constant(0);
  run.config.set_history(history);
  run.config.set_max_iterations(iterations);
  run.config.set_gradient_tolerance(1e-12);
  ASSIGN_OR_RETURN(const monsoon::JobDescription result, RunQuadratic(run));
  std::string text;
  google::protobuf::TextFormat::PrintToString(result, &text);
  std::ofstream(out) << PeakResidentBytes() << "\n" << text;
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(std::span<const char* const>(argv + 1, argv + argc));
  if (!status.ok()) {
    std::fprintf(stderr, "quadratic: %s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : 1;
}
