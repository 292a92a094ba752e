// FetchPlan: when a replica fetches, what, and when what was fetched lands. It is told what
// happens, round by round, and says what is to be done; calls, threads and clocks are the
// runner's.
//
// A fetch is *due* from a boundary of the exchange on, and begins as soon as none is in flight.
// At most one push and one fetch are. Fetches in turn (overlap NONE) are never due: they are
// made at the boundary.
//
// With fragments a fetch is of the one that was pushed last, until it has *landed*; the first
// fetch, and the first one after steps were given up, is of the *whole* model. With
// landing_steps what was pushed last lands so many rounds after the push, not sooner, and not
// later either: then a round waits for it.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/model/fragment_map.h"

namespace monsoon {

class FetchPlan {
 public:
  struct Options {
    bool overlapped = true;  // fetches run beside rounds
    uint32_t landing_steps = 0;
    uint32_t away_steps = 100;  // batches in a row that need no shard that is away
    FragmentMap fragments;
  };
  explicit FetchPlan(const Options& options) : options_(options) {}

  // Rounds that are over.
  uint64_t round() const { return round_; }
  void EndRound() { ++round_; }

  // ---- before a round ----

  // Whether a round of so many batches may be made while a shard is away. `any`: there are
  // parameters.
  bool GoesOnWithoutShard(uint64_t batches, bool any);
  void AllShardsAreThere() { away_steps_ = 0; }

  // A round is to be made, at a boundary or not. `pushing`: a push is in flight.
  void BeginRound(bool boundary, bool pushing);
  // Instead, where fetches are made in turn: whether one is to be made now.
  bool IsDueInTurn(bool boundary, bool pushing) const {
    return Wants(boundary, pushing) || must_land_;
  }

  bool due() const { return due_; }
  void SetDue(bool due) { due_ = due; }
  // A fetch that is due may begin. `fetching`: one is in flight. `held_up`: by the push in flight,
  // which it is to come after.
  bool MayBegin(bool fetching, bool held_up) const { return !fetching && !with_push_ && !held_up; }
  // What it is to bring: one fragment, or all.
  std::optional<uint32_t> next() const;
  // With fragments a fetch that is due need not wait for the end of a round.
  bool begins_in_rounds() const { return !options_.fragments.whole(); }

  // ---- landings ----

  // What was pushed last is not to land yet.
  bool LandsLater() const { return round_ < lands_at_ && !must_land_; }
  // It should have landed by now. `any`: there are parameters.
  bool IsLate(bool fetching, bool any) const;
  // No round is made before a fetch has landed.
  bool must_land() const { return must_land_; }
  void MustLand() { must_land_ = true; }

  // What this replica's steps made of its parameters is of use.
  bool keeps_steps() const { return keeps_steps_; }
  // A fetch is there. False: it is of no use, since all is to be fetched.
  bool Land(std::optional<uint32_t> fragment);
  // Whether what was pushed of the fragment has not landed yet.
  bool IsUnlanded(uint32_t fragment) const;

  // ---- pushes ----

  // A push leaves, with the rounds made so far. Then whether the parameters may come with its
  // acknowledgement; and that they are to.
  void Push() { lands_at_ = round_ + options_.landing_steps; }
  bool MayComeWithPush(bool boundary, bool fetching) const {
    return boundary && !due_ && !fetching;
  }
  void ComeWithPush();
  // It is over, and has brought them or not.
  void EndPush(bool brought);
  // The shards have it, or have refused it.
  void NotePushed(uint64_t push);

  // Fragments have left of which none was fetched in between: the next fetch is of all.
  void FetchWhole();
  // Steps are given up: no round is made before all of the shards' parameters have landed.
  void StartAnew();

 private:
  bool Wants(bool boundary, bool pushing) const;

  const Options options_;
  uint64_t round_ = 0;
  uint64_t away_steps_ = 0;  // in a row
  bool due_ = false;
  bool must_land_ = false;
  bool whole_ = true;                // the next fetch is of all fragments
  bool keeps_steps_ = false;         // something has landed since the beginning, or StartAnew
  uint64_t lands_at_ = 0;            // the round before which nothing lands
  bool with_push_ = false;           // the push in flight is to bring parameters
  std::optional<uint64_t> came_at_;  // the boundary that such a push stands for
  std::deque<uint64_t> unlanded_;    // with fragments: pushes of which nothing has landed
};

}  // namespace monsoon
