// What is different between the settings of two jobs, for people: the programs of one job
// must agree on all of them.
#pragma once

#include <string>

namespace monsoon {

class Job;

// The first field, in the order of job.proto, in which the job of a program differs from
// the job `id`, with its path and both values: "downpour.optimizer.adagrad.rate is 0.01 here
// and 0.03 in job gpt-1"; of the model the first tensor. `name` is left out. "": none does.
// Both have their defaults filled in, and valid models.
std::string JobDifference(const Job& here, const Job& there, const std::string& id);

}  // namespace monsoon
