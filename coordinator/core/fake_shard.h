// A parameter server of CoreHarness: what it has, and what it was told.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/parameter_server.pb.h"

namespace monsoon::testing {

struct FakeShard {
  bool alive = true;    // answers polls and commands
  bool silent = false;  // is there, and does not answer
  uint32_t pid = 100;
  uint64_t epoch = 1000;
  uint64_t version = 0;  // of every stripe of every job
  uint64_t term = 0;
  std::map<std::string, bool> jobs;  // id -> written_by_client
  std::map<std::string, uint64_t> attempt;
  // Slices of earlier coordinators' jobs, by term.
  std::map<std::pair<std::string, uint64_t>, uint64_t> orphans;
  std::set<std::string> open;        // sessions
  std::vector<std::string> history;  // "open j/0#1", "close j/0#1", ...
  absl::Status create_error;

  std::string state_dir;      // "": in memory only
  std::string disk_error;     // why nothing can be written now
  bool disk_is_slow = false;  // what is ordered is not written before Write
  // By job: the newest that is on the disk, what was ordered last, and why it failed.
  std::map<std::string, uint64_t> generation;
  std::map<std::string, CheckpointRequest> ordered;
  std::map<std::string, std::string> checkpoint_error;
  std::map<std::string, uint64_t> version_on_disk;
  int orders = 0;  // repeated ones too

  // What it answers when it is to restore a slice: an error, or what follows.
  absl::Status restore_error;
  std::vector<std::string> skipped;
  std::vector<LostPushes> lost;  // of those sessions that are not to stay open
  int restores = 0;              // orders, repeated ones too
  RestoreShardJobRequest restore;
  RestoreShardJobReply restored;
  int strange = 0;  // other commands for jobs that it does not have
};

}  // namespace monsoon::testing
