#include "ps_server/shard/slice_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "ps_server/shard/round.h"
#include "ps_server/shard/stripe.h"

namespace monsoon {

// ---- cuts --------------------------------------------------------------------------

StripeRecord SliceCheckpoint::CutStripe(uint32_t stripe, std::span<float> parameters,
                                        std::span<float> state) const {
  return stripes_->at(stripe).Cut(parameters, state);
}

ShardCheckpoint SliceCheckpoint::Cut() const {
  ShardCheckpoint cut;
  *cut.mutable_create() = request_;
  cut.set_shard_epoch(facts_.shard_epoch);
  cut.set_parent_epoch(parent_.shard_epoch);
  cut.set_parent_generation(parent_.generation);
  cut.set_state_slots(static_cast<uint32_t>(stripes_->state_slots()));
  sessions_->AddClosedTo(&cut);
  figures_->AddTo(&cut);
  return cut;
}

void SliceCheckpoint::NoteWritten(uint64_t generation, std::span<const StripeRecord> cuts) {
  CHECK_EQ(cuts.size(), stripes_->count());
  written_ = generation;  // before the marks, which are of this generation or an older one
  for (size_t i = 0; i < cuts.size(); ++i) {
    stripes_->at(i).NoteWritten(cuts[i]);
  }
  sessions_->NoteWritten();
}

// ---- restoring ----------------------------------------------------------------------

void SliceCheckpoint::Clear() {
  if (tables_ != nullptr) {
    tables_->Clear();
  }
  stripes_->Clear();
}

std::span<float> SliceCheckpoint::RestoredParameters(uint64_t at) {
  const uint64_t floats = facts_.map.stripe_floats();
  return stripes_->at(at / floats).MutableFloats().parameters.subspan(at % floats);
}

std::span<float> SliceCheckpoint::RestoredState(size_t slot, uint64_t at) {
  CHECK_LT(slot, static_cast<size_t>(stripes_->state_slots()));
  const uint64_t floats = facts_.map.stripe_floats();
  Stripe& stripe = stripes_->at(at / floats);
  return stripe.MutableFloats()
      .state.subspan(slot * stripe.size(), stripe.size())
      .subspan(at % floats);
}

absl::Status SliceCheckpoint::Restore(const ShardCheckpoint& content, const ShardCheckpoint* older,
                                      std::span<const SessionId> open) {
  RETURN_IF_ERROR(CheckRestorable(content));
  if (older != nullptr) {
    RETURN_IF_ERROR(CheckRestorable(*older));
  }
  writes_->NoteRestored();
  written_ = content.generation();
  // Before the stripes: each of them makes the windows of those sessions that are open by then.
  RETURN_IF_ERROR(sessions_->Restore(content, open));
  for (int i = 0; i < content.stripe_size(); ++i) {
    const StripeRecord& stripe = content.stripe(i);
    stripes_->at(static_cast<size_t>(i))
        .Restore(stripe, older == nullptr ? nullptr : &older->stripe(i));
    RETURN_IF_ERROR(vectors_->RestoreMaxima(
        static_cast<uint32_t>(i),
        std::span(stripe.maximum().data(), static_cast<size_t>(stripe.maximum_size()))));
  }
  if (tables_ != nullptr) {
    tables_->Restore(content, older, open);
  }
  figures_->Restore(content);
  parent_ = {content.shard_epoch(), content.generation()};
  return absl::OkStatus();
}

absl::Status SliceCheckpoint::CheckRestorable(const ShardCheckpoint& content) const {
  if (content.stripe_size() != static_cast<int>(stripes_->count()) ||
      content.state_slots() != static_cast<uint32_t>(stripes_->state_slots())) {
    return absl::DataLossError(absl::StrCat(
        "generation ", content.generation(), " holds ", content.stripe_size(), " stripes and ",
        content.state_slots(), " floats of optimizer state for each parameter; ", stripes_->count(),
        " and ", stripes_->state_slots(), " are needed"));
  }
  for (const StripeRecord& stripe : content.stripe()) {
    if (stripe.public_version() > stripe.version()) {
      return absl::DataLossError(
          absl::StrCat("generation ", content.generation(), " has a public copy of version ",
                       stripe.public_version(), " where the parameters are of ", stripe.version()));
    }
    const bool good = std::ranges::all_of(stripe.member(), [](const RoundMember& member) {
      return member.weight() > 0 && std::isfinite(member.weight()) && member.pushes() > 0 &&
             member.pushes() <= Round::kMostPushes && member.first() > 0;
    });
    if (!good || (stripe.member_size() > 0 && !request_.has_rounds())) {
      return absl::DataLossError(absl::StrCat("generation ", content.generation(),
                                              " has members of a round that cannot be"));
    }
  }
  for (int i = 0; i < content.stripe_size(); ++i) {
    const int maxima = content.stripe(i).maximum_size();
    const size_t lines = vectors_->lines(static_cast<uint32_t>(i));
    if (maxima > 0 && static_cast<size_t>(maxima) != lines) {
      return absl::DataLossError(absl::StrCat("generation ", content.generation(), ": stripe ", i,
                                              " has ", maxima, " largest values; ", lines,
                                              " are needed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace monsoon
