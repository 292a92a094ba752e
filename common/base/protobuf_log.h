// What protobuf has to say of messages that cannot be parsed goes through our
// logger, one line in ten seconds: a peer that sends broken messages would
// otherwise write as many lines to stderr as it sends.
#pragma once

namespace monsoon {

// For the whole process; again does nothing. Thread safe.
void LogProtobufErrors();

}  // namespace monsoon
