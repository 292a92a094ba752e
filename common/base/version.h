// The version of Monsoon: what `coordinator version` prints, libmonsoon.so tells and the
// wheels are named by (deploy/wheel.sh reads this line).
#pragma once

namespace monsoon {

inline constexpr char kMonsoonVersion[] = "0.1.0";

}  // namespace monsoon
