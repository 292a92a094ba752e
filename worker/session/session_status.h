// Errors with a meaning of their own, as statuses that survive being passed up:
// a diverged model (non-finite loss, too many refused pushes), with which the
// whole job fails, a program that diverged alone, a lost device, with which the replica
// leaves, and devices that cannot compute the job at all.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace monsoon {

absl::Status DivergedError(absl::string_view message);
bool IsDivergedError(const absl::Status& status);

// What a program keeps by itself, as its optimizer's moments, is not finite, and the job's
// parameters are: it leaves the job, which goes on with others.
absl::Status ProgramDivergedError(absl::string_view message);
bool IsProgramDivergedError(const absl::Status& status);

// No device is left to compute with: the replica leaves the job, which goes on
// with others, and its process ends, since a broken device context cannot be
// used again.
absl::Status DeviceError(absl::string_view message);
bool IsDeviceError(const absl::Status& status);

// The devices of this worker cannot compute the job, however often it tries: it is left
// out of this job, which goes on with others, and stays for others.
absl::Status UnfitDeviceError(absl::string_view message);
bool IsUnfitDeviceError(const absl::Status& status);

}  // namespace monsoon
