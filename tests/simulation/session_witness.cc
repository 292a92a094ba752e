#include "tests/simulation/session_witness.h"

#include <algorithm>
#include <cstddef>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulated_ps.h"

namespace monsoon::simulation {
namespace {

std::vector<ByteChunk> ChunksOf(const std::string& frame) {
  return {std::as_bytes(std::span(frame))};
}

}  // namespace

SessionWitness::SessionWitness(World* world, const SessionKey& session)
    : world_(world), session_{session.worker(), session.incarnation()} {
  if (!book().acknowledged.empty()) {
    return;  // another of its transports was here
  }
  for (const SimulatedPs* const ps : world->ps) {
    book().acknowledged.emplace_back(ps->log().stripes(), 0);
    book().written.emplace_back(ps->log().stripes(), 0);
  }
}

void SessionWitness::Sent(uint32_t shard, const std::string& frame) {
  const std::vector<ByteChunk> chunks = ChunksOf(frame);
  ChunkCursor cursor(chunks);
  const absl::StatusOr<DataHeader> header = DecodeFrameHead(&cursor);
  ASSERT_OK(header);
  if (header->has_push()) {
    NotePush(shard, header->push(), &cursor);
  }
}

void SessionWitness::NotePush(uint32_t shard, const PushRequest& push, ChunkCursor* payload) {
  ASSERT_GT(push.record_size(), 0);
  const uint32_t fragment = world_->fragments.Of(shard, push.record(0).stripe());
  const uint64_t number = world_->fragments.PushOf(fragment, push.record(0).sequence());
  book().pushed = std::max(book().pushed, number);
  if (!world_->counting) {
    return;
  }
  // The steps that it brings, by the first float that is the worker's own.
  std::vector<std::byte> bytes(push.record(0).length());
  payload->Copy(bytes.size(), bytes.data());
  const float own = DecodeStripe(push.record(0).format(), bytes)[session_.worker];
  book().steps.resize(book().pushed);
  book().steps[number - 1] = static_cast<uint64_t>(-own);
}

void SessionWitness::Told(uint32_t shard, const std::string& frame) {
  const std::vector<ByteChunk> chunks = ChunksOf(frame);
  ChunkCursor cursor(chunks);
  const absl::StatusOr<DataHeader> header = DecodeFrameHead(&cursor);
  ASSERT_OK(header);
  if (header->has_push_reply()) {
    NoteVerdicts(shard, header->push_reply());
    if (header->push_reply().has_fetch()) {
      CheckFetch(shard, header->push_reply().fetch());
    }
  } else if (header->has_marks_reply()) {
    NoteMarks(shard, header->marks_reply());
  } else if (header->has_fetch_reply()) {
    CheckFetch(shard, header->fetch_reply());
  }
}

void SessionWitness::NoteVerdicts(uint32_t shard, const PushReply& reply) {
  for (const PushVerdict& verdict : reply.verdict()) {
    switch (verdict.verdict()) {
      case APPLIED:
      case DUPLICATE:
        break;
      case REFUSED_EPOCH:
      case REFUSED_SESSION:
      case REFUSED_BUSY:
        return;
      default:
        FAIL() << Verdict_Name(verdict.verdict()) << " for push " << verdict.sequence()
               << " of worker/" << session_.worker << "#" << session_.incarnation << " to ps/"
               << shard << ": " << reply.ShortDebugString();
    }
  }
  for (const PushVerdict& verdict : reply.verdict()) {
    uint64_t& noted = book().acknowledged[shard][verdict.stripe()];
    noted = std::max<uint64_t>(noted, verdict.sequence());
  }
}

void SessionWitness::NoteMarks(uint32_t shard, const MarksReply& reply) {
  for (uint32_t stripe = 0; stripe < static_cast<uint32_t>(reply.stripe_size()); ++stripe) {
    const StripeMarks& marks = reply.stripe(static_cast<int>(stripe));
    uint64_t& noted = book().acknowledged[shard][stripe];
    noted = std::max<uint64_t>(noted, marks.applied());
    book().written[shard][stripe] = marks.written();
  }
}

void SessionWitness::CheckFetch(uint32_t shard, const FetchReply& reply) {
  std::map<uint32_t, uint64_t>& versions = versions_[{shard, reply.shard_epoch()}];
  for (const FetchRecord& record : reply.record()) {
    if (record.version() == 0 && world_->plan.job.has_sandblaster()) {
      continue;  // of a vector, which has none
    }
    uint64_t& version = versions[record.stripe()];
    ASSERT_GE(record.version(), version) << "a version went back";
    version = record.version();
  }
}

}  // namespace monsoon::simulation
