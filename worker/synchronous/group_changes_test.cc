// Members that come and die again and again: whoever is in a group has the others' bits.
#include <algorithm>
#include <cstdint>
#include <latch>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/testing/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/synchronous/runner_fixture.h"

namespace monsoon {
namespace {

constexpr uint32_t kMembers = 4;
constexpr uint64_t kSteps = 1000;
constexpr int kChanges = 200;
constexpr uint32_t kNobody = kMembers;

class GroupChangesTest : public SynchronousRunnerTest,
                         public ::testing::WithParamInterface<const char*> {
 protected:
  std::vector<uint32_t> Living() const {
    std::vector<uint32_t> living;
    for (uint32_t worker = 0; worker < kMembers; ++worker) {
      if (members_[worker] != nullptr) {
        living.push_back(worker);
      }
    }
    return living;
  }

  // What the member has is what others had at that step.
  void Compare(const TestMember& member) {
    const uint64_t digest = member.state->Digest();
    const uint64_t updates = member.state->at().updates();
    MutexLock lock(&mutex_);
    const auto [known, first] = digests_.emplace(updates, digest);
    ASSERT_EQ(known->second, digest) << "worker/" << member.worker << " at step " << updates;
    compared_ += first ? 0 : 1;
  }

  // Until its lease or its group is over. `victim` dies after so many steps: at a step's edge, or
  // at any moment of the next one.
  void RunGroup(const NextWorkReply::Synchronize& order, uint32_t victim, uint64_t after,
                bool within) {
    std::latch done(order.member_size());
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < order.member_size(); ++rank) {
      threads.emplace_back([&, rank] {
        TestMember* const member = members_[order.member(rank).worker()].get();
        NextWorkReply::Synchronize mine = order;
        mine.set_rank(static_cast<uint32_t>(rank));
        ASSERT_OK(member->runner->Take(mine));
        const uint64_t dies = order.from().updates() + after;
        std::jthread kills;
        while (member->runner->left()) {
          const bool last = member->worker == victim && member->state->has() &&
                            member->state->at().updates() >= dies;
          if (last && !within) {
            member->runner->Leave();
            break;
          }
          if (last && !kills.joinable()) {
            kills = std::jthread([member] { member->runner->Abort(); });
          }
          if (!member->runner->Step().ok()) {
            break;  // killed
          }
          if (member->state->has()) {
            Compare(*member);
          }
        }
        done.arrive_and_wait();  // nobody leaves while others may still ask for it
      });
    }
  }

  Mutex mutex_;
  std::map<uint64_t, uint64_t> digests_ ABSL_GUARDED_BY(mutex_);  // by step
  uint64_t compared_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_P(GroupChangesTest, AllHaveOneDigestAtEachStep) {
  Make(kMembers, absl::StrCat("reduce: ", GetParam()), "momentum { rate: 0.05 momentum: 0.9 }");
  members_[2].reset();
  members_[3].reset();
  std::minstd_rand dice(7);
  int joins = 0, deaths = 0;
  uint64_t updates = 0;
  while (!HasFailure() && (joins + deaths < kChanges || updates < kSteps)) {
    std::vector<uint32_t> workers = Living();
    uint32_t victim = kNobody;
    if (workers.size() < 2 || (workers.size() < kMembers && dice() % 2 == 0)) {
      uint32_t joiner = dice() % kMembers;
      while (members_[joiner] != nullptr) {
        joiner = (joiner + 1) % kMembers;
      }
      members_[joiner] = std::make_unique<TestMember>(joiner, job_, store_.get());
      workers = Living();
      ++joins;
    } else {
      victim = workers[dice() % workers.size()];
      ++deaths;
    }
    NextWorkReply::Synchronize order = Order(workers, 0);
    order.set_until_batches(order.from().batches() + 6 * workers.size());
    {
      MutexLock lock(&mutex_);
      // What the dead alone had is nothing any more.
      digests_.erase(digests_.upper_bound(order.from().updates()), digests_.end());
    }
    RunGroup(order, victim, dice() % 5, dice() % 2 == 0);
    if (victim != kNobody) {
      members_[victim].reset();
    }
    for (const uint32_t worker : Living()) {
      updates = std::max(updates, members_[worker]->state->at().updates());
    }
  }
  MutexLock lock(&mutex_);
  EXPECT_GE(digests_.size(), kSteps);
  EXPECT_GE(compared_, kSteps);
  RecordProperty("joins", joins);
  RecordProperty("deaths", deaths);
  RecordProperty("compared", static_cast<int>(compared_));
}

INSTANTIATE_TEST_SUITE_P(Reduce, GroupChangesTest, ::testing::Values("RING", "TREE", "DIRECT"));

}  // namespace
}  // namespace monsoon
