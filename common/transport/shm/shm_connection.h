// ShmConnection: one client of a SharedMemoryServer, with the thread that
// serves it. It has memory to receive and to serve frames only while it has a turn
// of the message budget.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "common/process/unique_fd.h"
#include "common/transport/frame/frame_handler.h"
#include "common/transport/frame/frame_server.h"
#include "common/transport/frame/message_budget.h"
#include "common/transport/frame/read_counts.h"
#include "common/transport/shm/bell.h"
#include "common/transport/shm/frame_channel.h"
#include "common/transport/shm/memory_file.h"

namespace monsoon {

class ShmConnection final : private MessageBudget::Holder {
 public:
  // `bell_fd`: the client's bell. Checks it, makes the connection's memory and
  // begins to serve. `socket` and `frames` outlive the connection.
  static absl::StatusOr<std::unique_ptr<ShmConnection>> Start(int socket, UniqueFd bell_fd,
                                                              FrameServer::Admission admission,
                                                              FrameServer* frames);
  // Ends the thread, after the frame that it is serving.
  ~ShmConnection();

  // What the client maps.
  int memory_fd() const { return file_.fd(); }

  // Where the client counts what it reads from memory that it maps.
  std::shared_ptr<const ReadCounts> read_counts() const;

 private:
  ShmConnection(int socket, FrameServer::Admission admission, FrameServer* frames, MemoryFile file,
                MemoryMapping memory, MemoryMapping bell);

  // MessageBudget::Holder: the thread is woken for it.
  void Granted() override;
  void GiveWay(bool stuck) override;

  void Serve();
  void ServeFrames();
  // Waits for a request to begin, and for the turn to receive it; gives the turn
  // back meanwhile when it is asked to. False: the connection is over.
  bool AwaitTurn(FrameReceiver* receiver, FrameScratch* scratch);
  bool TakeTurn();
  void LeaveTurn(FrameReceiver* receiver, FrameScratch* scratch);
  // Whether the thread must end.
  bool ends() const { return stopping_ || cut_off_; }
  // Serves the request that has come. False: the connection is over.
  bool ServeFrame(FrameChannel* channel, FrameScratch* scratch);
  bool Send(const FrameCall::Answer& answer, FrameSender* sender);
  // Waits for a whole request. False: the connection is over.
  bool Receive(FrameReceiver* receiver);

  const int socket_;
  const FrameServer::Admission admission_;
  FrameServer* const frames_;
  const MemoryFile file_;
  const std::shared_ptr<const MemoryMapping> memory_;
  const MemoryMapping bell_memory_;
  Bell* const client_bell_;
  Bell* const server_bell_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> granted_{false};
  std::atomic<bool> give_way_{false};
  std::atomic<bool> cut_off_{false};  // the client takes or sends nothing
  bool has_turn_ = false;             // the thread's
  SpinHabit spin_;                    // likewise
  std::jthread thread_;
};

}  // namespace monsoon
