#include "common/optimizer/optimizer_loops.h"

#include "common/optimizer/optimizer_rules.h"

namespace monsoon::SIMD_NAMESPACE {
namespace {

// What every optimizer does to a gradient first: clip by value, then add the weight decay.
// Written with conditionals that map to one minimum and one maximum.
template <bool kTransform>
float Transformed(const OptimizerStep& step, float g, float w) {
  if constexpr (kTransform) {
    const float below = g < step.clip ? g : step.clip;
    const float clipped = below > -step.clip ? below : -step.clip;
    return clipped + step.weight_decay * w;
  } else {
    return g;
  }
}

// What becomes of the distance that a parameter moves.
enum class Record { kNothing, kSet, kAdd };

template <Record kRecord>
void Move(float by, size_t i, float* __restrict w, float* __restrict moved) {
  w[i] -= by;
  if constexpr (kRecord == Record::kSet) {
    moved[i] = -by;
  } else if constexpr (kRecord == Record::kAdd) {
    moved[i] -= by;
  }
}

// The step by value: its numbers stay in registers.
template <OptimizerRule rule, bool kTransform, Record kRecord>
void Update(size_t n, OptimizerStep step, float* __restrict w, float* __restrict first,
            float* __restrict second, const float* __restrict g, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float gi = Transformed<kTransform>(step, g[i], w[i]);
    Move<kRecord>(Rule<rule>::Back(step, {i, w[i], gi, first, second}), i, w, moved);
  }
}

template <Record kRecord>
void UpdateAverage(size_t n, float share, float keep, float* __restrict w, float* __restrict d,
                   const float* __restrict step, float* __restrict moved) {
  for (size_t i = 0; i < n; ++i) {
    const float next = keep * (d[i] + share * step[i]);
    const float by = d[i] - next;
    d[i] = next;
    w[i] += by;
    if constexpr (kRecord == Record::kSet) {
      moved[i] = step[i] + by;
    } else if constexpr (kRecord == Record::kAdd) {
      moved[i] += step[i] + by;
    }
  }
}

// Calls `loop` with the constant for what is recorded.
template <typename Loop>
void ByRecord(const MoveRecord& record, Loop loop) {
  if (record.moved == nullptr) {
    loop.template operator()<Record::kNothing>();
  } else if (record.fresh) {
    loop.template operator()<Record::kSet>();
  } else {
    loop.template operator()<Record::kAdd>();
  }
}

template <OptimizerRule rule>
void UpdateByRule(size_t n, const OptimizerStep& step, float* w, float* first, float* second,
                  const float* g, MoveRecord record) {
  const bool transforms = step.clip != __builtin_inff() || step.weight_decay != 0.0f;
  ByRecord(record, [&]<Record kRecord>() {
    if (transforms) {
      Update<rule, true, kRecord>(n, step, w, first, second, g, record.moved);
    } else {
      Update<rule, false, kRecord>(n, step, w, first, second, g, record.moved);
    }
  });
}

void Average(size_t n, float share, float keep, float* w, float* d, const float* step,
             MoveRecord record) {
  ByRecord(record, [&]<Record kRecord>() {
    UpdateAverage<kRecord>(n, share, keep, w, d, step, record.moved);
  });
}

template <int rule = 0>
constexpr void AddRules(OptimizerLoops* loops) {
  loops->update[rule] = UpdateByRule<static_cast<OptimizerRule>(rule)>;
  if constexpr (rule + 1 < kOptimizerRules) {
    AddRules<rule + 1>(loops);
  }
}

constexpr OptimizerLoops AllLoops() {
  OptimizerLoops loops = {};
  AddRules(&loops);
  loops.average = Average;
  return loops;
}

}  // namespace

constinit const OptimizerLoops kOptimizerLoops = AllLoops();

}  // namespace monsoon::SIMD_NAMESPACE
