// The constants of one push by the optimizers that have many, for the loops of this process
// and for OptimizerStep. Defines no function: SIMD loops and nvcc include it.
#pragma once

namespace monsoon {

// One push by Adam or AdamW (adam.h), the corrections of the bias included.
struct AdamStep {
  float beta1, rest1;  // rest = 1 - beta
  float beta2, rest2;
  float rate;        // / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float decay;  // times the rate; 0: none
};

// One push by RMSProp (rms_prop.h).
struct RmsPropStep {
  float alpha, rest;  // rest = 1 - alpha
  float rate;
  float epsilon;
  float momentum;
};

// One push by Nesterov's momentum (nesterov.h).
struct NesterovStep {
  bool closes;  // b moves, and the sum begins anew
  float rate;
  float momentum;
  float part;   // 1 / period
  float ahead;  // of b, what is added to the gradient's part
};

}  // namespace monsoon
