// The version of this build, as `coordinator version` prints it.
#pragma once

namespace monsoon {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace monsoon
