// LossCount: what a slice has not of a session's pushes that an earlier life of the shard
// had acknowledged, stripe by stripe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "proto/checkpoint.pb.h"
#include "ps_server/shard/session_table.h"

namespace monsoon {

class LossCount {
 public:
  // A stripe that has seen the session's pushes up to `held`; an earlier life, up to `mark`.
  void Add(uint64_t held, uint64_t mark) {
    if (mark > held) {
      from_ = std::min(from_, held + 1);
      to_ = std::max(to_, mark);
      records_ += mark - held;
    }
  }

  // The same of the pushes whose rows of tables it has.
  void AddRows(uint64_t held, uint64_t mark) {
    if (mark > held) {
      from_ = std::min(from_, held + 1);
      to_ = std::max(to_, mark);
      rows_ += mark - held;
    }
  }

  // Nothing: it has all. `complete`: the marks are all that was acknowledged, else the
  // least.
  std::optional<LostPushes> Report(uint32_t shard, SessionId session, bool complete) const {
    if (records_ + rows_ == 0) {
      return std::nullopt;
    }
    LostPushes lost;
    lost.set_shard(shard);
    lost.set_worker(session.worker);
    lost.set_incarnation(session.incarnation);
    lost.set_from(from_);
    if (complete) {
      lost.set_to(to_);
    } else {
      lost.set_to_at_least(to_);
    }
    lost.set_records(records_);
    lost.set_row_pushes(rows_);
    return lost;
  }

 private:
  uint64_t from_ = UINT64_MAX;
  uint64_t to_ = 0;
  uint64_t records_ = 0;
  uint64_t rows_ = 0;
};

}  // namespace monsoon
