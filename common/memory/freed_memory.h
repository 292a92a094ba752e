// Memory that the process has freed, and that the allocator keeps for it.
#pragma once

namespace monsoon {

// Gives it back to the system, as far as whole pages of it are free. Worth its milliseconds where
// much was freed that is not wanted again soon: the allocator alone gives back only what lies
// behind all that is in use.
void ReturnFreedMemory();

}  // namespace monsoon
