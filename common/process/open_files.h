// Descriptors of this process: a server of hundreds of workers has one a connection
// and more, and 1024, what most systems begin with, are few.
#pragma once

namespace monsoon {

// As many as the system allows this user. Does nothing where it cannot.
void RaiseOpenFileLimit();

}  // namespace monsoon
