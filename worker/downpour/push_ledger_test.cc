#include "worker/downpour/push_ledger.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/testing/status_matchers.h"

namespace monsoon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<DonePart> Blocks(std::vector<uint64_t> numbers) {
  std::vector<DonePart> blocks;
  for (const uint64_t number : numbers) {
    BlockId block;
    block.set_block(number);
    blocks.emplace_back(block);
  }
  return blocks;
}

std::vector<uint64_t> Done(PushLedger* ledger) {
  std::vector<uint64_t> done;
  for (const DonePart& part : ledger->TakeDone()) {
    done.push_back(std::get<BlockId>(part).block());
  }
  return done;
}

// A push that was sent, with these blocks.
void Push(PushLedger* ledger, std::vector<uint64_t> blocks, bool refused = false) {
  const uint64_t sequence = ledger->next();
  ledger->Sent();
  ledger->Over(sequence, refused, Blocks(std::move(blocks)));
}

TEST(PushLedgerTest, BlocksAreDoneOnceAllShardsHaveTheirPush) {
  PushLedger ledger(1);
  Push(&ledger, {1, 2});
  Push(&ledger, {3});
  EXPECT_EQ(ledger.last(), 2u);
  EXPECT_THAT(ledger.Acknowledge(0), IsEmpty());
  EXPECT_THAT(Done(&ledger), IsEmpty());
  EXPECT_THAT(ledger.Acknowledge(1), ElementsAre(1));
  EXPECT_THAT(Done(&ledger), ElementsAre(1, 2));
  EXPECT_THAT(ledger.Acknowledge(UINT64_MAX), ElementsAre(2));
  EXPECT_THAT(Done(&ledger), ElementsAre(3));
  EXPECT_THAT(ledger.Acknowledge(2), IsEmpty());  // no news
  EXPECT_THAT(Done(&ledger), IsEmpty());
}

TEST(PushLedgerTest, APositionInAStreamHasThePushThatBringsWhatWasRead) {
  PushLedger ledger(2);
  const auto positions = [](const std::string& state) {
    StreamPosition position;
    position.set_state(state);
    return std::vector<DonePart>{position};
  };
  const auto told = [&ledger] {
    std::vector<std::pair<std::string, uint64_t>> all;
    for (const DonePart& part : ledger.TakeDone()) {
      const auto& position = std::get<StreamPosition>(part);
      all.emplace_back(position.state(), position.push());
    }
    return all;
  };
  for (const char* const state : {"a", "b", "c"}) {
    ledger.Sent();
    ledger.Over(ledger.last(), /*refused=*/false, positions(state));
  }
  ledger.Acknowledge(2);
  EXPECT_THAT(told(), ElementsAre(std::pair("a", 1u)));
  ledger.FinishAll(positions("d"));
  EXPECT_THAT(told(), ElementsAre(std::pair("b", 2u), std::pair("c", 3u), std::pair("d", 3u)));
}

TEST(PushLedgerTest, ABlockIsDoneWhenEachFragmentHasLeftSince) {
  PushLedger ledger(3);
  Push(&ledger, {1});
  Push(&ledger, {2});
  EXPECT_THAT(ledger.Acknowledge(2), ElementsAre(1, 2));
  EXPECT_THAT(Done(&ledger), IsEmpty());
  Push(&ledger, {});
  EXPECT_THAT(ledger.Acknowledge(3), ElementsAre(3));
  EXPECT_THAT(Done(&ledger), ElementsAre(1));
  Push(&ledger, {});
  EXPECT_THAT(ledger.Acknowledge(4), ElementsAre(4));
  EXPECT_THAT(Done(&ledger), ElementsAre(2));
}

TEST(PushLedgerTest, ARefusedPushIsNoNewsButItsBlocksAreVisited) {
  PushLedger ledger(1);
  Push(&ledger, {1}, /*refused=*/true);
  EXPECT_THAT(ledger.Acknowledge(1), IsEmpty());
  EXPECT_THAT(Done(&ledger), ElementsAre(1));
}

TEST(PushLedgerTest, APushThatWasNotSentLeavesItsSequenceToTheNext) {
  PushLedger ledger(1);
  ledger.Over(ledger.next(), /*refused=*/true, Blocks({1}));
  EXPECT_THAT(ledger.Acknowledge(UINT64_MAX), IsEmpty());
  EXPECT_THAT(Done(&ledger), IsEmpty());
  EXPECT_EQ(ledger.next(), 1u);
  Push(&ledger, {2});
  EXPECT_THAT(ledger.Acknowledge(UINT64_MAX), ElementsAre(1));
  EXPECT_THAT(Done(&ledger), ElementsAre(1, 2));
}

TEST(PushLedgerTest, NoBlockWaitsForAPushOnceAllHasLeft) {
  PushLedger ledger(3);
  Push(&ledger, {1});
  Push(&ledger, {2});
  ledger.Over(ledger.next(), /*refused=*/true, Blocks({3}));
  EXPECT_THAT(ledger.Acknowledge(2), ElementsAre(1, 2));
  EXPECT_THAT(Done(&ledger), IsEmpty());
  ledger.FinishAll(Blocks({7}));
  EXPECT_THAT(Done(&ledger), ElementsAre(1, 2, 3, 7));
  Push(&ledger, {});
  EXPECT_THAT(ledger.Acknowledge(3), ElementsAre(3));  // nothing comes again
  EXPECT_THAT(Done(&ledger), IsEmpty());
}

}  // namespace
}  // namespace monsoon
