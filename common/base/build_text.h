// What this binary is, for people and for messages between binaries of one build.
#pragma once

#include <string>

namespace monsoon {

// The commit that it was built from; "unknown" where that was not told.
std::string BuildCommit();
// "g++ 12.2.0".
std::string BuildCompiler();
// Whether workers of this build have their CUDA backend. Nothing of CUDA is linked for it.
bool BuiltWithCuda();

// "monsoon 0.1.0 (git 1a2b3c4), g++ 12.2.0, without CUDA": what `--version` prints, without
// the end of the line.
std::string BuildText();

}  // namespace monsoon
