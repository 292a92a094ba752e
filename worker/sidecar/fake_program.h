// FakeProgram: the user's program for tests of its sidecar: the other ends of the sockets
// that Program has, in the same process; and the fields of its calls.
//
// Thread safety: none for seen(); all else may be another thread's, one at a time.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/client/exchange.h"
#include "worker/sidecar/program.h"

namespace monsoon::testing {

// A step that counts so many batches, with gradients of rows, and of all tensors but the absent.
// `read`: of the stream "part-0", it is said to be read so far; "": nothing is said.
inline std::string StepOf(uint32_t batches, const std::vector<uint64_t>& rows = {},
                          const std::vector<uint32_t>& absent = {}, const std::string& read = "") {
  FieldWriter fields;
  fields.Number(batches);
  fields.Number(uint64_t{1});            // steps
  fields.Number(uint64_t{4} * batches);  // examples
  fields.Number(uint64_t{0});            // judged
  fields.Number(uint64_t{0});            // correct
  fields.Number(uint8_t{1});
  fields.Number(0.5);  // loss
  fields.Number(static_cast<uint32_t>(rows.size()));
  for (const uint64_t row : rows) {  // a piece each, of two values
    fields.Number(uint32_t{0});
    fields.Number(uint64_t{1});
    fields.Number(row);
    fields.Number(1.0f);
    fields.Number(2.0f);
  }
  fields.Number(static_cast<uint32_t>(absent.size()));
  for (const uint32_t tensor : absent) {
    fields.Number(tensor);
  }
  fields.Number(uint32_t{read.empty() ? 0u : 1u});
  if (!read.empty()) {
    fields.String("part-0");
    fields.String(read);
  }
  return fields.bytes();
}
inline std::string RowsOf(const std::vector<uint64_t>& rows, uint32_t table = 0) {
  FieldWriter fields;
  fields.Number(table);
  fields.Number(uint64_t{rows.size()});
  fields.Bytes(rows.data(), rows.size() * sizeof(uint64_t));
  return fields.bytes();
}
inline std::string Evaluated(const std::string& failure) {
  FieldWriter fields;
  fields.String(failure);
  fields.Number(uint32_t{1});
  fields.String("loss");
  fields.Number(2.5);
  return fields.bytes();
}

class FakeProgram {
 public:
  struct Event {
    EventFigures figures;
    std::string rest;  // the batches
  };

  FakeProgram() {
    int calls[2];
    int leave[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, calls), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, leave), 0);
    socket_ = std::make_unique<MessageSocket>(calls[0]);
    leave_ = UniqueFd(leave[0]);
    // The "program" is whoever runs the test.
    absl::StatusOr<std::unique_ptr<Program>> program = Program::Open(calls[1], leave[1]);
    EXPECT_OK(program);
    program_ = *std::move(program);
  }

  // As the sidecar sees it.
  Program& seen() { return *program_; }

  // Has joined a job of so many parameters.
  void Join(size_t floats) {
    Call(MessageKind::kJoin);
    EXPECT_OK(program_->AwaitCall(kPatience));
    absl::StatusOr<std::unique_ptr<ProgramMemory>> memory = ProgramMemory::Create(floats);
    ASSERT_OK(memory);
    program_->AnswerJoin("", *std::move(memory));
    int fd = -1;
    Message answer;
    EXPECT_EQ(socket_->Receive(kPatienceMs, &answer, &fd), MessageSocket::Outcome::kDone);
    EXPECT_EQ(answer.kind, MessageKind::kJoined);
    EXPECT_GE(fd, 0);
    close(fd);
  }
  void Call(MessageKind kind, std::string_view fields = "", int passed = -1) {
    EXPECT_TRUE(socket_->Send(kind, fields, passed));
  }
  void Write(std::string_view bytes) {
    EXPECT_EQ(write(socket_->fd(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  Message AwaitAnswer() {
    Message answer;
    EXPECT_EQ(socket_->Receive(kPatienceMs, &answer), MessageSocket::Outcome::kDone);
    return answer;
  }
  Event AwaitEvent() {
    const Message answer = AwaitAnswer();
    EXPECT_EQ(answer.kind, MessageKind::kEvent) << answer.fields;
    FieldReader fields(answer.fields);
    Event event;
    event.figures = EventFigures::Read(&fields);
    FieldWriter figures;
    event.figures.Write(&figures);
    event.rest = answer.fields.substr(figures.bytes().size());
    return event;
  }
  // Says that it leaves.
  void Leave() { EXPECT_EQ(shutdown(leave_.get(), SHUT_RDWR), 0); }
  void Close() { socket_.reset(); }

 private:
  static constexpr int kPatienceMs = 30000;
  static constexpr absl::Duration kPatience = absl::Milliseconds(kPatienceMs);

  std::unique_ptr<MessageSocket> socket_;
  UniqueFd leave_;
  std::unique_ptr<Program> program_;
};

}  // namespace monsoon::testing
