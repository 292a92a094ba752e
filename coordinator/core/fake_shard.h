// A parameter server of CoreHarness: what it has, and what it was told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/journal_mark.pb.h"
#include "proto/member_identity.pb.h"
#include "proto/optimizer.pb.h"
#include "proto/parameter_server.pb.h"

namespace monsoon::testing {

struct FakeShard {
  // Another life.
  void Restart() {
    alive = true;
    pid += 50;
    ++epoch;
    jobs.clear();
    attempt.clear();
    reductions.clear();
    settings.clear();
    held.clear();
    open.clear();
    ordered.clear();
    checkpoint_error.clear();
    if (state_dir.empty()) {
      generation.clear();
    }
  }
  // Writes what was ordered, if the disk takes it.
  void Write() {
    for (const auto& [job, request] : ordered) {
      if (disk_error.empty()) {
        generation[job] = request.generation();
        version_on_disk[job] = version;
        checkpoint_error.erase(job);
      } else if (generation[job] < request.generation()) {
        checkpoint_error[job] = disk_error;
      }
    }
  }
  absl::Status Create(const CreateShardJobRequest& request) {
    const std::string& job = request.job();
    if (request.has_source() && !jobs.contains(request.source().job())) {
      return absl::NotFoundError("no job " + request.source().job());
    }
    if (create_error.ok()) {
      generation.erase(job);
      ordered.erase(job);
      jobs[job] = request.written_by_client();
      MadeWith(request);
      attempt.erase(job);
      // A new slice has no sessions.
      std::erase_if(open, [&job](const std::string& session) {
        return session.substr(0, session.find('/')) == job;
      });
    }
    return create_error;
  }
  void MadeWith(const CreateShardJobRequest& request) {
    ChangeSettingsRequest& known = settings[request.job()];
    known.set_revision(request.settings_revision());
    *known.mutable_optimizer() = request.optimizer();
    known.clear_from_version();
    held.erase(request.job());
  }
  // As SliceStripes::ChangeSettings of one stripe; `told_version` is what it answers.
  absl::Status Change(const ChangeSettingsRequest& request) {
    ++settings_orders;
    if (!settings_error.ok()) {
      return settings_error;
    }
    ChangeSettingsRequest& known = settings[request.job()];
    if (request.revision() <= known.revision()) {
      told_version = known.from_version();
    } else if (request.has_rounds() && !request.has_from_version()) {
      held.insert(request.job());
      told_version = version;
    } else {
      held.erase(request.job());
      known = request;
      told_version = std::max(request.from_version(), version + 1);
      known.set_from_version(told_version);
    }
    return absl::OkStatus();
  }
  void AddSettings(const std::string& job, ShardJobStatus* status) const {
    if (const auto known = settings.find(job); known != settings.end()) {
      status->set_settings_revision(known->second.revision());
      status->set_settings_from(known->second.from_version());
    }
  }
  absl::Status Restore(const RestoreShardJobRequest& request) {
    const std::string& job = request.create().job();
    ++restores;
    restore = request;
    if (!restore_error.ok()) {
      return restore_error;
    }
    if (state_dir.empty()) {
      return absl::FailedPreconditionError("no state folder");
    }
    if (!lacks.empty()) {
      return request.given_up_by().empty()
                 ? absl::UnavailableError(absl::StrCat("it waits for ", lacks))
                 : absl::NotFoundError(
                       absl::StrCat(request.given_up_by(), " has given up ", lacks));
    }
    if (jobs.contains(job) && attempt[job] >= request.attempt()) {
      return attempt[job] == request.attempt() ? absl::OkStatus()
                                               : absl::AbortedError("an earlier attempt");
    }
    uint64_t newest = generation.contains(job) ? generation[job] : 0;
    if (request.generation() > 0 && newest > request.generation()) {
      newest = generation[job] = request.generation();
    }
    if (newest < std::max(request.least_generation(), request.generation()) ||
        (newest == 0 && request.create().written_by_client())) {
      return absl::NotFoundError("no part of it is good enough");
    }
    jobs[job] = request.create().written_by_client();
    MadeWith(request.create());
    version = newest > 0 ? version_on_disk[job] : 0;
    restored.Clear();
    restored.set_shard_epoch(epoch);
    restored.set_generation(newest);
    restored.set_attempt(request.attempt());
    attempt[job] = request.attempt();
    ordered.erase(job);
    restored.mutable_skipped()->Assign(skipped.begin(), skipped.end());
    std::string sessions;
    for (int i = 0; i < request.session_size(); ++i) {
      const SessionKey& session = request.session(i);
      const std::string name =
          absl::StrCat(session.job(), "/", session.worker(), "#", session.incarnation());
      open.insert(name);
      if (i < request.session_member_size()) {
        owner[name] = request.session_member(i);
      }
      absl::StrAppend(&sessions, " ", name);
    }
    history.push_back(absl::StrCat("restore ", job, ":", sessions));
    for (const LostPushes& each : lost) {
      if (!open.contains(absl::StrCat(job, "/", each.worker(), "#", each.incarnation()))) {
        *restored.add_lost() = each;
      }
    }
    return absl::OkStatus();
  }

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
  std::set<std::string> open;  // sessions
  std::map<std::string, MemberIdentity> owner;
  std::vector<std::string> history;  // "open j/0#1", "close j/0#1", ...
  absl::Status create_error;

  std::string state_dir;      // "": in memory only
  JournalMark journal;        // of which it has heard
  std::string trouble;        // ShardStatusReply.trouble
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
  std::string lacks;  // the folder that it should have and has not; "": it has it
  std::vector<std::string> skipped;
  std::vector<LostPushes> lost;  // of those sessions that are not to stay open
  // What closing a session, "j/0#1", comes to besides.
  std::map<std::string, LostPushes> lost_at_close;
  bool closes_unheard = false;  // its answers to closes do not arrive
  int restores = 0;             // orders, repeated ones too
  RestoreShardJobRequest restore;
  RestoreShardJobReply restored;
  std::map<std::string, uint32_t> reductions;             // by job
  std::map<std::string, ChangeSettingsRequest> settings;  // that it has, by job
  std::set<std::string> held;                             // jobs of which it ends no round
  absl::Status settings_error;
  uint64_t told_version = 0;
  int settings_orders = 0;  // repeated ones too
  absl::Status rate_error;
  int rate_orders = 0;
  int strange = 0;  // other commands for jobs that it does not have
};

}  // namespace monsoon::testing
