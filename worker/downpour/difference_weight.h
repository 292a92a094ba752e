// DifferenceWeigher: how much the difference counts that a replica pushes (downpour.proto,
// DifferenceWeight and Rounds), over that of a whole one: local_steps steps with batch_size
// samples for each replica of the worker, or weight_reference.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/downpour.pb.h"
#include "proto/job.pb.h"
#include "worker/nn/step_result.h"

namespace monsoon {

class DifferenceWeigher {
 public:
  // Of a worker with so many replicas; LocalSteps.steps is set, or all weigh 1.
  DifferenceWeigher(const Job& job, uint32_t replicas);

  // A network's whole difference has so many steps from now on.
  void SetSteps(uint32_t steps);

  // A batch of one replica that is in the difference.
  void Add(const StepResult& step);
  struct Counted {
    float weight = 1;
    // Which part of a whole difference a program's is (PushRequest.part): it alone knows the steps
    // between two of its calls. 1 where the exchange counts them, or the whole has no fixed length.
    float part = 1;
  };
  // Of what was added since the last call for that fragment; 1 for nothing at all.
  Counted Take(uint32_t fragment = 0);

 private:
  double WeightOf(double steps, double examples) const;

  DifferenceWeight kind_ = DEFAULT_WEIGHT;
  double replicas_ = 1;
  double reference_ = 1;
  double steps_ = 0;          // that the reference is of; 0: it is of none
  double program_steps_ = 0;  // of a program's whole difference; 0: not known
  struct Counts {
    uint64_t steps = 0;  // of all replicas
    uint64_t examples = 0;
  };
  std::vector<Counts> counts_;  // [fragment]
};

}  // namespace monsoon
