// The fixture of the tests of commands: files in a folder, and a fake cluster.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "common/model/parameter_layout.h"
#include "coordinator/cli/fake_cluster.h"
#include "gtest/gtest.h"

namespace monsoon {

inline constexpr char kCluster[] = R"pb(
  name: "t"
  coordinator { address: "unix:cli-test-c" }
  ps { address: "unix:cli-test-p" }
  worker { address: "unix:cli-test-w" })pb";

inline constexpr char kJob[] = R"pb(
  model {
    name: "tiny"
    input_shape: 3
    layer {
      name: "a"
      dense { units: 2 }
    }
  }
  train { synthetic { examples: 64 classes: 2 } }
  test { synthetic { examples: 64 classes: 2 seed: 1 } }
  batch_size: 8
  downpour { optimizer { sgd { rate: 0.1 } } }
  stop { epochs: 2 })pb";

inline JobDescription Description(JobState state, const std::string& reason = "") {
  JobDescription job;
  job.mutable_summary()->set_job("tiny-1");
  job.mutable_summary()->set_state(state);
  job.mutable_summary()->set_reason(reason);
  return job;
}

inline const absl::Status kDown = absl::UnavailableError("coordinator at unix:c not reached");

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "/cli-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    cluster_ = Write("my_cluster.textproto", kCluster);
    job_ = Write("tiny.textproto", kJob);
    model_ = folder_ + "/model.npz";
    cli_.environment().default_cluster = cluster_;
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  // Keeps the strings of a call alive.
  int Run(std::vector<std::string> args) {
    std::vector<const char*> pointers;
    for (const std::string& arg : args) {
      pointers.push_back(arg.c_str());
    }
    return cli_.Run(pointers);
  }

  ParameterLayout Layout() {
    Model model;
    model.set_name("tiny");
    model.add_input_shape(3);
    Layer* layer = model.add_layer();
    layer->set_name("a");
    layer->mutable_dense()->set_units(2);
    const ParameterLayout layout = *ParameterLayout::Create(model);
    *cli_.coordinator.location.mutable_model() = model;
    cli_.coordinator.location.set_job("tiny-1");
    cli_.coordinator.location.set_layout_hash(layout.Hash());
    return layout;
  }

  CliRunner cli_;
  std::string folder_;
  std::string cluster_;
  std::string job_;
  std::string model_;
};

}  // namespace monsoon
