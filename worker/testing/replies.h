// Answers of a coordinator to the request for work, for scripted sessions.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "proto/coordinator.pb.h"

namespace monsoon::testing {

inline NextWorkReply Train(std::initializer_list<uint32_t> blocks) {
  NextWorkReply reply;
  for (const uint32_t block : blocks) {
    reply.mutable_train()->add_block()->set_block(block);
  }
  return reply;
}
inline NextWorkReply Flush() {
  NextWorkReply reply;
  reply.mutable_flush();
  return reply;
}
inline NextWorkReply Evaluate(uint64_t id) {
  NextWorkReply reply;
  reply.mutable_evaluate()->set_evaluation(id);
  return reply;
}
inline NextWorkReply Wait(uint32_t retry_ms = 1) {
  NextWorkReply reply;
  reply.mutable_wait()->set_retry_ms(retry_ms);
  return reply;
}
inline NextWorkReply Finish() {
  NextWorkReply reply;
  reply.mutable_finish();
  return reply;
}

}  // namespace monsoon::testing
