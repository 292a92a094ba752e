// Which folders a worker opens the data files of jobs below.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/data/access/data_roots.h"
#include "proto/cluster.pb.h"

namespace monsoon {

// In place of folders: no file is opened for jobs.
inline constexpr char kNoDataRoots[] = "none";

// InvalidArgument, naming it, for a folder that is no absolute path or has control characters, and
// for "none" beside others. Looks at no disk.
absl::Status CheckDataFolders(const std::vector<std::string>& folders);

// What counts, in this order: `given` on the command line, of which relative paths are the working
// folder's; the task's; the cluster's; and where nobody says anything, all that the worker's user
// may read if that user runs the cluster (`beside_owner`), else nothing: the owner of another host
// has to say which files the jobs of others may read. Errors as above, and as of DataRoots::Below.
absl::StatusOr<DataRoots> RootsOfWorker(const std::vector<std::string>& given,
                                        const WorkerTask& task, const Cluster& cluster,
                                        bool beside_owner);

}  // namespace monsoon
