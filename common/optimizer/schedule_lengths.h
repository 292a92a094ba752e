// The lengths of a schedule: each is a number of pushes, or in its place a share of all pushes
// until a job's `stop`, which becomes a number when the job is submitted. A kind of Schedule
// (proto/optimizer.proto) has one where its message has `pushes` and `share`, or `every_pushes` and
// `every_share`; the warm-up, and each of a list of points, is one too. Checks, advice and what
// turns shares into numbers go by this list.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/optimizer.pb.h"

namespace monsoon {

struct ScheduleLength {
  std::string name, share_name;  // below the schedule: "cosine.pushes", "cosine.share"
  uint64_t pushes = 0;           // 0: unset, or a point at the beginning
  double share = 0.0;            // 0: unset
  bool needed = false;           // 0 of both means nothing
  // The whole length of a kind that stays as it is after it.
  bool whole = false;
};

// Those that there are, set or not, in the order of their fields.
std::vector<ScheduleLength> LengthsOf(const Schedule& schedule);

// Gives each length the pushes that `pushes_of` makes of it.
void SetLengths(const std::function<uint64_t(const ScheduleLength&)>& pushes_of,
                Schedule* schedule);

}  // namespace monsoon
