#include "common/memory/freed_memory.h"

#include <malloc.h>

namespace monsoon {

void ReturnFreedMemory() { malloc_trim(0); }

}  // namespace monsoon
