// DieWithParent: the kernel kills this process when its parent ends, however
// the parent ends, and also while this process is stopped.
#pragma once

namespace monsoon {

// Call first thing in main. Ends the process at once when the parent is
// already gone. The signal comes when the *thread* that forked ends, so the
// parent must fork from its main thread.
void DieWithParent();

// Whether `--die_with_parent` stands in argv: daemons ask before they parse
// their flags, so that no window is left.
bool WantsToDieWithParent(int argc, char** argv);

}  // namespace monsoon
