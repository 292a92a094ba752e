#include "ps_server/client/push_windows.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/memory/stream_copy.h"

namespace monsoon {

PushWindows::PushWindows(const ParameterClientOptions* options, const PushEncoder* encoder)
    : options_(*options), encoder_(*encoder) {
  shards_.reserve(options_.map.shards());
  for (uint32_t shard = 0; shard < options_.map.shards(); ++shard) {
    // Each gets room by its length, so that all hold equally many pushes; rows are spread evenly,
    // however few parameters are beside them.
    const double share = options_.tables.empty()
                             ? static_cast<double>(options_.map.shard(shard).size()) /
                                   static_cast<double>(options_.map.size())
                             : 1.0 / options_.map.shards();
    Shard& made = shards_.emplace_back(
        Shard{ReplayWindow(static_cast<uint64_t>(static_cast<double>(options_.keep_bytes) * share)),
              {},
              {}});
    for (uint32_t fragment = 0; fragment < options_.fragments.count(); ++fragment) {
      // Of one that has no stripe there nothing is ever missing.
      made.durable.push_back(options_.fragments.Runs(fragment, shard).empty()
                                 ? UINT64_MAX
                                 : options_.fragments.PushesBefore(fragment, 0));
    }
    made.durable.resize(KindsOfPushes(options_), 0);
  }
}

bool PushWindows::full() const {
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    const uint64_t bytes =
        encoder_.ShardBytes(shard).size() + (rows_.empty() ? 0 : rows_[shard]->size());
    if (shards_[shard].window.full(bytes)) {
      return true;
    }
  }
  return false;
}

void PushWindows::Keep(const FetchMarks& base, const std::shared_ptr<const void>& owner) {
  ++last_;
  const bool stays = owner != nullptr && encoder_.as_it_is();
  for (uint32_t i = 0; i < shards_.size(); ++i) {
    const std::span<const std::byte> bytes = encoder_.ShardBytes(i);
    unfilled_.push_back(stays ? nullptr : pool_.Take(bytes.size()));
    copied_bytes_ += stays ? 0 : bytes.size();
    auto kept = stays ? std::make_shared<KeptBytes>(bytes, owner) : unfilled_.back();
    kept->set_weight(encoder_.weight(), encoder_.part());
    kept->set_patience(encoder_.patience());
    kept->set_absent(encoder_.absent());
    kept->set_rows(rows_.empty() ? nullptr : rows_[i]);
    shards_[i].window.Add(std::move(kept));
    CHECK_EQ(shards_[i].window.last(), last_);
    shards_[i].base.push_back(base.shard.empty() ? std::vector<StripeMark>() : base.shard[i]);
  }
}

void PushWindows::Fill() {
  for (uint32_t i = 0; i < unfilled_.size(); ++i) {
    if (KeptBytes* const kept = unfilled_[i].get(); kept != nullptr) {
      StreamCopy(encoder_.ShardBytes(i), kept->bytes().data());
    }
  }
  unfilled_.clear();
}

void PushWindows::Forgo() {
  for (Shard& shard : shards_) {
    shard.window.Forgo();
    ForgetBases(&shard);
  }
}

RequestMaker::KeptPush PushWindows::RequestOf(uint32_t index, const ReplayWindow::Push& push,
                                              std::span<const std::byte> bytes,
                                              std::shared_ptr<KeptBytes> keep) const {
  const Shard& shard = shards_[index];
  const size_t i = static_cast<size_t>(push.sequence - shard.window.durable() - 1);
  return {.sequence = push.sequence,
          .shard_epoch = shard.window.epoch(),
          .bytes = bytes,
          .base = shard.base[i],
          .weight = push.bytes->weight(),
          .part = push.bytes->part(),
          .patience = push.bytes->patience(),
          .absent = push.bytes->absent(),
          .keep = std::move(keep)};
}

void PushWindows::OnAcknowledged(uint32_t index, uint64_t sequence, const HeardOfShard& heard) {
  Shard& shard = shards_[index];
  shard.window.OnAcknowledged(shard.window.epoch(), sequence, HeardDurable(&shard, heard));
  ForgetBases(&shard);
}

void PushWindows::NoteDropped(uint32_t index, const HeardOfShard& heard) {
  Shard& shard = shards_[index];
  for (const auto& [sequence, stripe] : heard.dropped) {
    const uint64_t durable = shard.window.durable();
    if (sequence <= durable || sequence - durable > shard.base.size()) {
      continue;  // it is not kept any more
    }
    std::vector<StripeMark>& base = shard.base[static_cast<size_t>(sequence - durable - 1)];
    base.resize(options_.map.stripes(index));  // there may be none
    base[stripe].dropped = true;
  }
}

absl::Status PushWindows::OnMarks(uint32_t index, const HeardOfShard& heard) {
  Shard& shard = shards_[index];
  if (absl::Status status = shard.window.OnMarks(
          shard.window.epoch(), std::min(heard.applied, last_), HeardDurable(&shard, heard));
      !status.ok()) {
    return status;
  }
  shard.written = heard.written;
  shard.generation = heard.generation;
  ForgetBases(&shard);
  return absl::OkStatus();
}

uint64_t PushWindows::HeardDurable(Shard* shard, const HeardOfShard& heard) const {
  std::vector<uint64_t>& durable = shard->durable;
  for (uint32_t kind = 0; kind < durable.size(); ++kind) {
    if (heard.durable[kind] != UINT64_MAX) {
      durable[kind] = heard.durable[kind];
    }
  }
  return std::min(last_, *std::ranges::min_element(durable));
}

bool PushWindows::AwaitsGeneration(uint32_t index) const {
  const Shard& shard = shards_[index];
  return shard.window.acknowledged() < last_ || shard.written < last_;
}

std::vector<uint64_t> PushWindows::generations() const {
  std::vector<uint64_t> generations;
  for (const Shard& shard : shards_) {
    generations.push_back(shard.generation);
  }
  return generations;
}

void PushWindows::ForgetBases(Shard* shard) {
  while (shard->base.size() > shard->window.last() - shard->window.durable()) {
    shard->base.pop_front();
  }
}

void PushWindows::Publish() {
  uint64_t acknowledged = last_;
  uint64_t bytes = 0;
  for (const Shard& shard : shards_) {
    acknowledged = std::min(acknowledged, shard.window.once_acknowledged());
    bytes += shard.window.bytes();
  }
  acknowledged_ = acknowledged;
  bytes_ = bytes;
}

}  // namespace monsoon
