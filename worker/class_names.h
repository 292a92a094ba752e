// The names that a job's data give to its classes.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace monsoon {

// In the order of the labels: those of class_name, else what the training set, or else the test
// set, tells. Empty: labels are numbers, and that is their name. Reads what tells them; an error is
// that of a set that is not there.
absl::StatusOr<std::vector<std::string>> ClassNamesOf(const Job& job);

}  // namespace monsoon
