// What every optimizer does to a gradient first: clip by value, then add the
// weight decay.
#pragma once

#include <limits>

#include "proto/job.pb.h"

namespace monsoon {

struct GradientTransform {
  float clip = std::numeric_limits<float>::infinity();
  float weight_decay = 0.0f;

  static GradientTransform From(const Optimizer& optimizer) {
    GradientTransform transform;
    if (optimizer.clip_value() > 0.0) {
      transform.clip = static_cast<float>(optimizer.clip_value());
    }
    transform.weight_decay = static_cast<float>(optimizer.weight_decay());
    return transform;
  }

  bool identity() const {
    return clip == std::numeric_limits<float>::infinity() && weight_decay == 0.0f;
  }

  // Written with conditionals that map to one minimum and one maximum.
  float operator()(float g, float w) const {
    const float below = g < clip ? g : clip;
    const float clipped = below > -clip ? below : -clip;
    return clipped + weight_decay * w;
  }
};

}  // namespace monsoon
