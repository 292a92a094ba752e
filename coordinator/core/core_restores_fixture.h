// The fixture of the tests of shards that keep state, die and are started again.
#pragma once

#include <string>
#include <vector>

#include "coordinator/core/core_checkpoints_fixture.h"

namespace monsoon::testing {

class CoreRestoresTest : public CoreCheckpointsTest {
 protected:
  CoreRestoresTest() { h_.KeepState(); }

  // Generation 1 is on the disk of both shards.
  void StartWithAGeneration() {
    Start(h_.Plan(50));
    ASSERT_OK(h_.Ask(0));
    Push(5);
    ASSERT_OK(Ask());
    Pass(1);
    ASSERT_EQ(Durability().generation(), 1u);
  }
  void Kill(uint32_t shard) { h_.shard(shard).alive = false; }
  int CountOf(const std::string& event) {
    const std::vector<std::string> events = h_.Events();
    return static_cast<int>(std::ranges::count(events, event));
  }
  // Polls, and takes the command that is then given to ps/1 alone.
  ShardCommand PollAndTakeRestore() {
    h_.Poll();
    ShardCommand restore;
    for (const ShardCommand& command : h_.core().TakeCommands(h_.now())) {
      if (command.kind == ShardCommand::Kind::kRestoreJob) {
        EXPECT_EQ(command.shard, 1u);
        restore = command;
      } else {
        h_.core().OnCommand(command, h_.Answer(command), h_.now());
      }
    }
    EXPECT_EQ(restore.kind, ShardCommand::Kind::kRestoreJob);
    return restore;
  }
  static LostPushes Lost(uint32_t worker, uint64_t from, uint64_t to) {
    LostPushes lost;
    lost.set_worker(worker);
    lost.set_incarnation(1);
    lost.set_from(from);
    lost.set_to(to);
    lost.set_records(2 * (to - from + 1));
    return lost;
  }
};

}  // namespace monsoon::testing
