// Recording: what a coordinator did in a schedule, as one number: the same bytes in the same
// order give the same number (64-bit FNV-1a), in every build.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "coordinator/shards/shard_command.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message_lite.h"

namespace monsoon::testing {

class Recording {
 public:
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      AddByte(static_cast<uint8_t>(number >> shift));
    }
  }
  void Add(absl::string_view text) {
    Add(uint64_t{text.size()});
    for (const char c : text) {
      AddByte(static_cast<uint8_t>(c));
    }
  }
  // Maps within a message have no order of their own.
  void Add(const google::protobuf::MessageLite& message) {
    std::string bytes;
    {
      google::protobuf::io::StringOutputStream stream(&bytes);
      google::protobuf::io::CodedOutputStream output(&stream);
      output.SetSerializationDeterministic(true);
      message.SerializeToCodedStream(&output);
    }
    Add(bytes);
  }
  // All that a shard is told.
  void Add(const ShardCommand& command) {
    Add(static_cast<uint64_t>(command.kind));
    Add(uint64_t{command.shard});
    Add(command.job);
    Add(command.job_term);
    Add(command.term);
    Add(command.call);
    Add(command.shard_epoch);
    Add(uint64_t{command.replace});
    Add(command.session);
    Add(command.create);
    Add(command.checkpoint);
    Add(command.restore);
    Add(command.reduce);
  }

  uint64_t number() const { return number_; }

 private:
  void AddByte(uint8_t byte) { number_ = (number_ ^ byte) * 0x100000001b3; }

  uint64_t number_ = 0xcbf29ce484222325;
};

}  // namespace monsoon::testing
