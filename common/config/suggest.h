// "Did you mean": the nearest of the names that would have been right.
#pragma once

#include <string>
#include <vector>

namespace monsoon {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a`
// into `b`, ASCII case ignored (optimal string alignment).
int EditDistance(const std::string& a, const std::string& b);

// The candidate that `name` was probably meant to be; "" when none is near:
// at most a third of its letters wrong, or one a prefix or a word of the other.
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

// `did you mean "CANDIDATE"?`, or "".
std::string DidYouMean(const std::string& name, const std::vector<std::string>& candidates);

// The same for command-line flags, given without their "--": FlagSet::SetSuggest.
std::string DidYouMeanFlag(const std::string& name, const std::vector<std::string>& flags);

}  // namespace monsoon
