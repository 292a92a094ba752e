#include "tests/gpu/emulator/warp.h"

#include <algorithm>

#include "tests/gpu/emulator/report.h"

namespace monsoon::emulator {
namespace {

// The lane a shuffle reads, by the manual's formulas; `valid`: it is in its segment.
uint32_t SourceLane(const Exchange& exchange, uint32_t lane, bool* valid) {
  const uint32_t segment = exchange.second >> 8 & 0x1F;
  const uint32_t clamp = exchange.second & 0x1F;
  const uint32_t by = exchange.first & 0x1F;
  const uint32_t last = (lane & segment) | (clamp & ~segment);
  const uint32_t first = lane & segment;
  int64_t source = 0;
  switch (exchange.kind) {
    case Exchange::kShuffleUp:
      source = int64_t{lane} - by;
      *valid = source >= int64_t{last};
      break;
    case Exchange::kShuffleDown:
      source = int64_t{lane} + by;
      *valid = source <= int64_t{last};
      break;
    case Exchange::kShuffleButterfly:
      source = lane ^ by;
      *valid = source <= int64_t{last};
      break;
    default:
      source = first | (by & ~segment);
      *valid = source <= int64_t{last};
      break;
  }
  return *valid ? static_cast<uint32_t>(source) : lane;
}

void Shuffle(std::span<Thread> warp, uint32_t mask) {
  for (uint32_t lane = 0; lane < warp.size(); ++lane) {
    if ((mask >> lane & 1) == 0) {
      continue;
    }
    Exchange& exchange = warp[lane].exchange;
    const uint32_t source = SourceLane(exchange, lane, &exchange.valid);
    if (source >= warp.size() || (mask >> source & 1) == 0) {
      Report("warp", Text("%s: lane %u shuffles from lane %u, which does not take part (mask %x)",
                          warp[lane].launch->kernel, lane, source, mask));
      exchange.result = 0xFFFFFFFF;
      continue;
    }
    exchange.result = warp[source].exchange.value;
  }
}

uint32_t Combine(Exchange::Kind kind, bool is_signed, uint32_t a, uint32_t b) {
  const bool less = is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
  switch (kind) {
    case Exchange::kAdd:
      return a + b;
    case Exchange::kMin:
      return less ? a : b;
    case Exchange::kMax:
      return less ? b : a;
    case Exchange::kAnd:
      return a & b;
    case Exchange::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

// Votes and reductions: one result for all.
uint32_t Common(std::span<const Thread> warp, uint32_t mask) {
  const Thread* first = nullptr;
  uint32_t ballot = 0;
  uint32_t reduced = 0;
  for (uint32_t lane = 0; lane < warp.size(); ++lane) {
    if ((mask >> lane & 1) != 0) {
      const Exchange& exchange = warp[lane].exchange;
      ballot |= (exchange.value & 1) << lane;
      reduced = first == nullptr
                    ? exchange.value
                    : Combine(exchange.kind, exchange.first != 0, reduced, exchange.value);
      first = first == nullptr ? &warp[lane] : first;
    }
  }
  switch (first->exchange.kind) {
    case Exchange::kVoteAll:
      return ballot == mask ? 1 : 0;
    case Exchange::kVoteAny:
      return ballot != 0 ? 1 : 0;
    case Exchange::kVoteUniform:
      return ballot == mask || ballot == 0 ? 1 : 0;
    case Exchange::kBallot:
      return ballot;
    default:
      return reduced;
  }
}

}  // namespace

bool ExchangeInWarp(std::span<Thread> warp) {
  bool any = false;
  for (uint32_t lane = 0; lane < warp.size(); ++lane) {
    if (warp[lane].wait != Wait::kWarp) {
      continue;
    }
    const Exchange& exchange = warp[lane].exchange;
    const uint32_t present = warp.size() == 32 ? ~uint32_t{0} : (uint32_t{1} << warp.size()) - 1;
    const uint32_t mask = exchange.mask & present;
    if ((mask >> lane & 1) == 0) {
      Fault(warp[lane], Text("a warp's exchange with mask %x without the lane itself", mask));
    }
    bool all = true;
    for (uint32_t other = 0; other < warp.size(); ++other) {
      if ((mask >> other & 1) != 0) {
        all = all && warp[other].wait == Wait::kWarp && warp[other].resume == warp[lane].resume &&
              warp[other].exchange.mask == exchange.mask;
      }
    }
    if (!all) {
      continue;
    }
    if (exchange.kind >= Exchange::kShuffleUp && exchange.kind <= Exchange::kShuffleIndex) {
      Shuffle(warp, mask);
    }
    const bool common = exchange.kind >= Exchange::kVoteAll;
    const bool orders = exchange.kind == Exchange::kSync;
    const uint32_t result = common ? Common(warp, mask) : 0;
    for (uint32_t other = 0; other < warp.size(); ++other) {
      if ((mask >> other & 1) != 0) {
        Thread& thread = warp[other];
        thread.exchange.result = common ? result : thread.exchange.result;
        thread.warp_phase += orders ? 1 : 0;
        thread.wait = Wait::kNothing;
      }
    }
    any = true;
  }
  return any;
}

}  // namespace monsoon::emulator
