#include "coordinator/downpour/data_plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace monsoon {
namespace {

// stop.epochs such as 0.3 is not exact.
constexpr double kRounding = 1e-9;

enum class Unit { kExamples, kSteps };

bool IsDone(const EpochCursor* epoch, uint64_t block) {
  return epoch != nullptr &&
         std::ranges::any_of(epoch->done(), [block](const EpochCursor::Run& run) {
           return block >= run.first() && block < run.end();
         });
}

// Goes through the blocks that are not done until so much is granted.
class Walk {
 public:
  Walk(const DataPlanOptions& options, Unit unit, uint64_t remaining)
      : options_(options),
        unit_(unit),
        remaining_(remaining),
        per_epoch_((options.examples + options.block_examples - 1) / options.block_examples) {
    plan_.examples = options.resumed.examples_done();
  }

  DataPlan Run() {
    uint64_t epoch = options_.resumed.epochs_done();
    plan_.blocks = epoch * per_epoch_;
    for (const EpochCursor& cursor : options_.resumed.epoch()) {
      for (; remaining_ > 0 && epoch <= cursor.epoch(); ++epoch) {
        TakeEpoch(epoch, epoch == cursor.epoch() ? &cursor : nullptr);
      }
    }
    if (remaining_ > 0) {
      TakeUntouched(epoch);
    }
    return plan_;
  }

 private:
  uint64_t SizeOf(uint64_t block) const {
    return std::min(options_.block_examples, options_.examples - block * options_.block_examples);
  }
  uint64_t AmountOf(uint64_t size) const {
    return unit_ == Unit::kExamples ? size : (size + options_.batch_size - 1) / options_.batch_size;
  }

  void Take(uint64_t epoch, uint64_t block) {
    const uint64_t size = SizeOf(block);
    const uint64_t amount = std::min(AmountOf(size), remaining_);
    const uint64_t granted =
        unit_ == Unit::kExamples ? amount : std::min(amount * options_.batch_size, size);
    remaining_ -= amount;
    plan_.examples += granted;
    plan_.blocks = epoch * per_epoch_ + block + 1;
    plan_.last_block_examples = granted == size ? 0 : granted;
  }

  void TakeEpoch(uint64_t epoch, const EpochCursor* cursor) {
    for (uint64_t block = 0; block < per_epoch_ && remaining_ > 0; ++block) {
      if (!IsDone(cursor, block)) {
        Take(epoch, block);
      }
    }
  }

  // From `epoch` on nothing is done, and there may be very many.
  void TakeUntouched(uint64_t epoch) {
    const uint64_t block_amount = AmountOf(options_.block_examples);
    const uint64_t epoch_amount =
        (per_epoch_ - 1) * block_amount + AmountOf(SizeOf(per_epoch_ - 1));
    const uint64_t epochs = (remaining_ - 1) / epoch_amount;
    if (epoch + epochs > std::numeric_limits<uint32_t>::max()) {
      plan_ = DataPlan();  // No job comes so far: blocks have 32 bits for their epoch.
      return;
    }
    remaining_ -= epochs * epoch_amount;
    const uint64_t blocks = std::min((remaining_ - 1) / block_amount, per_epoch_ - 1);
    remaining_ -= blocks * block_amount;
    plan_.examples += epochs * options_.examples + blocks * options_.block_examples;
    Take(epoch + epochs, blocks);
  }

  const DataPlanOptions& options_;
  const Unit unit_;
  uint64_t remaining_;
  const uint64_t per_epoch_;
  DataPlan plan_;
};

uint64_t Less(uint64_t all, uint64_t done) { return all > done ? all - done : 0; }

// Orders plans by their ends.
std::tuple<uint64_t, uint64_t> EndOf(const DataPlan& plan) {
  return {plan.blocks, plan.last_block_examples - 1};  // 0, the whole block, becomes the most
}

}  // namespace

DataPlan DataPlan::Make(const DataPlanOptions& options) {
  DataPlan plan;
  if (options.stop.epochs() > 0) {
    const double wanted = options.stop.epochs() * static_cast<double>(options.examples);
    const auto examples =
        std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(wanted - kRounding * wanted)));
    plan = Walk(options, Unit::kExamples, Less(examples, options.resumed.examples_done())).Run();
  }
  if (options.stop.steps() > 0) {
    const DataPlan by_steps =
        Walk(options, Unit::kSteps, Less(options.stop.steps(), options.resumed.steps())).Run();
    plan = EndOf(by_steps) < EndOf(plan) ? by_steps : plan;
  }
  return plan;
}

}  // namespace monsoon
