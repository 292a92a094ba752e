#include "worker/client/exchange.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace monsoon {
namespace {

using Outcome = MessageSocket::Outcome;

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    a = std::make_unique<MessageSocket>(fds[0]);
    b = std::make_unique<MessageSocket>(fds[1]);
  }
  std::unique_ptr<MessageSocket> a;
  std::unique_ptr<MessageSocket> b;
};

TEST(FieldsTest, ComeBackInTheirOrder) {
  FieldWriter writer;
  writer.Number(uint32_t{7});
  writer.String("job \"gpt\"");
  writer.Number(-1.5);
  writer.String("");
  FieldReader reader(writer.bytes());
  EXPECT_EQ(reader.Number<uint32_t>(), 7u);
  EXPECT_EQ(reader.String(), "job \"gpt\"");
  EXPECT_FALSE(reader.ok());  // something is left
  EXPECT_EQ(reader.Number<double>(), -1.5);
  EXPECT_EQ(reader.String(), "");
  EXPECT_TRUE(reader.ok());
}

TEST(FieldsTest, AnyCutIsNoticed) {
  FieldWriter writer;
  writer.String("abc");
  writer.Number(uint64_t{1});
  for (size_t cut = 0; cut < writer.bytes().size(); ++cut) {
    FieldReader reader(std::string_view(writer.bytes()).substr(0, cut));
    reader.String();
    reader.Number<uint64_t>();
    EXPECT_FALSE(reader.ok()) << cut;
  }
}

TEST(FieldsTest, ALengthBeyondTheEndReadsAsNothing) {
  FieldWriter writer;
  writer.Number(uint32_t{0xffffffff});
  FieldReader reader(writer.bytes());
  EXPECT_EQ(reader.String(), "");
  EXPECT_TRUE(reader.broken());
}

TEST(MessageSocketTest, CarriesMessagesLongerThanItsBuffer) {
  Pair pair;
  const std::string fields(3 << 20, 'x');
  std::thread sender([&] { EXPECT_TRUE(pair.a->Send(MessageKind::kDraw, fields)); });
  Message message;
  EXPECT_EQ(pair.b->Receive(10000, &message), Outcome::kDone);
  sender.join();
  EXPECT_EQ(message.kind, MessageKind::kDraw);
  EXPECT_EQ(message.fields, fields);
}

TEST(MessageSocketTest, KeepsMessagesApart) {
  Pair pair;
  ASSERT_TRUE(pair.a->Send(MessageKind::kDraw, "one"));
  ASSERT_TRUE(pair.a->Send(MessageKind::kStep, ""));
  Message message;
  EXPECT_EQ(pair.b->Receive(1000, &message), Outcome::kDone);
  EXPECT_EQ(message.fields, "one");
  EXPECT_EQ(pair.b->Receive(0, &message), Outcome::kDone);
  EXPECT_EQ(message.kind, MessageKind::kStep);
  EXPECT_EQ(pair.b->Receive(0, &message), Outcome::kTimeout);
}

TEST(MessageSocketTest, PassesADescriptor) {
  Pair pair;
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  ASSERT_TRUE(pair.a->Send(MessageKind::kJoined, "with it", pipe_fds[1]));
  Message message;
  int passed = -1;
  ASSERT_EQ(pair.b->Receive(1000, &message, &passed), Outcome::kDone);
  ASSERT_GE(passed, 0);
  EXPECT_EQ(write(passed, "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(pipe_fds[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  close(passed);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(MessageSocketTest, LooksBeforeItSleepsAsLongAsThatFindsAnything) {
  Pair pair;
  int looks = 0;
  pair.b->LookBeforeSleep([&] {
    if (++looks == 2) {
      EXPECT_TRUE(pair.a->Send(MessageKind::kEvent, "meanwhile"));
    }
  });
  Message message;
  EXPECT_EQ(pair.b->Receive(10000, &message), Outcome::kDone);
  EXPECT_EQ(message.fields, "meanwhile");
  EXPECT_EQ(looks, 2);
  int waits_with_looks = 0;
  for (int wait = 0; wait < 60; ++wait) {
    const int before = looks;
    EXPECT_EQ(pair.b->Receive(1, &message), Outcome::kTimeout);
    waits_with_looks += looks > before ? 1 : 0;
  }
  EXPECT_EQ(waits_with_looks, 4);
  looks = 2;
  EXPECT_EQ(pair.b->Receive(0, &message), Outcome::kTimeout);
  EXPECT_EQ(looks, 2) << "no time to wait, no looks";
}

TEST(MessageSocketTest, AClosedEndIsTold) {
  Pair pair;
  ASSERT_TRUE(pair.a->Send(MessageKind::kDraw, "last"));
  pair.a.reset();
  Message message;
  EXPECT_EQ(pair.b->Receive(1000, &message), Outcome::kDone);
  EXPECT_EQ(pair.b->Receive(1000, &message), Outcome::kClosed);
  EXPECT_FALSE(pair.b->Send(MessageKind::kDraw, "to nobody"));
}

TEST(MessageSocketTest, ALengthOfGarbageIsMalformed) {
  Pair pair;
  ASSERT_EQ(write(pair.a->fd(), "\xff\xff\xff\xff\xff\xff\xff\xff", 8), 8);
  Message message;
  EXPECT_EQ(pair.b->Receive(1000, &message), Outcome::kMalformed);
}

TEST(MessageSocketTest, ASignalInterruptsAndLosesNothing) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Pair pair;
  // Half a message, then a signal, then the rest.
  const uint32_t header[2] = {static_cast<uint32_t>(MessageKind::kEvent), 4};
  ASSERT_EQ(write(pair.a->fd(), header, 8), 8);
  const pthread_t self = pthread_self();
  std::atomic<bool> interrupted = false;
  std::thread sender([&] {
    while (!interrupted) {
      pthread_kill(self, SIGUSR1);
      std::this_thread::yield();
    }
    EXPECT_EQ(write(pair.a->fd(), "rest", 4), 4);
  });
  Message message;
  EXPECT_EQ(pair.b->Receive(10000, &message), Outcome::kInterrupted);
  interrupted = true;
  Outcome outcome = Outcome::kInterrupted;
  while (outcome == Outcome::kInterrupted) {
    outcome = pair.b->Receive(10000, &message);
  }
  sender.join();
  EXPECT_EQ(outcome, Outcome::kDone);
  EXPECT_EQ(message.fields, "rest");
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace monsoon
