// SimulatedMarks: what ps_server/checkpoint/marks_folder.h keeps, on a simulated disk: a
// process that dies leaves all of it, and a power cut any earlier state. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/parameter_server.pb.h"
#include "ps_server/shard/session_marks.h"
#include "tests/simulation/dice.h"

namespace monsoon::simulation {

class SimulatedMarks {
 public:
  // As MakeSessionMarks. Outlives what it makes.
  std::unique_ptr<SessionMarks> OpenJob(const CreateShardJobRequest& create, uint32_t stripes,
                                        bool fresh);
  void PowerCut(Dice* dice);
  // What the files say now.
  SimulatedMarks Copy() const;

 private:
  class Marks;
  struct File {
    explicit File(uint32_t stripes) : marks(stripes) {}
    std::vector<std::atomic<uint64_t>> marks;
    bool complete = true;
  };
  using Files = std::map<SessionId, std::unique_ptr<File>>;
  std::map<std::pair<std::string, uint64_t>, Files> jobs_;
};

}  // namespace monsoon::simulation
