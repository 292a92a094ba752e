// SessionWitness: stands where the frames of one session leave its process and come to it, and
// notes in the session's book what it has pushed and what it was told.
//
// What must not happen fails the running test. Not thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/frame/frame_codec.h"
#include "proto/tensor.pb.h"
#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SessionWitness {
 public:
  SessionWitness(World* world, const SessionKey& session);

  // The session's process sends the frame to the shard.
  void Sent(uint32_t shard, const std::string& frame);
  // It gets the answer.
  void Told(uint32_t shard, const std::string& frame);

 private:
  SessionBook& book() { return world_->books[session_]; }
  void NotePush(uint32_t shard, const PushRequest& push, ChunkCursor* payload);
  void NoteVerdicts(uint32_t shard, const PushReply& reply);
  void NoteMarks(uint32_t shard, const MarksReply& reply);
  void CheckFetch(uint32_t shard, const FetchReply& reply);

  World* const world_;
  const SessionId session_;
  // [shard, epoch, stripe]: fetched; within a life of the shard none goes back.
  std::map<std::pair<uint32_t, uint64_t>, std::map<uint32_t, uint64_t>> versions_;
};

}  // namespace monsoon::simulation
