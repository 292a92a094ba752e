// DataAccess: what a process may do with the data files of a job.
#pragma once

#include <utility>

#include "common/data/access/data_roots.h"
#include "common/data/access/quoting.h"

namespace monsoon {

struct DataAccess {
  DataRoots roots;
  Quoting quoting = Quoting::kDescribe;

  // Of the user's own process, as `validate` and `predict`: what that user may read, and messages
  // quote it.
  static DataAccess Own() { return {DataRoots::Anywhere(), Quoting::kShow}; }
  // Of a worker, which reads what a job names and tells others of it.
  static DataAccess ForJobs(DataRoots roots) { return {std::move(roots), Quoting::kDescribe}; }
};

}  // namespace monsoon
