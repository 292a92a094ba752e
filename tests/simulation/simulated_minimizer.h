// The minimiser's thread of a simulated coordinator: the real DriveBatch on a virtual thread, as
// coordinator/server runs it, with commands that go over the virtual network.
#pragma once

#include "tests/simulation/world.h"

namespace monsoon::simulation {

class SimulatedCoordinator;

// In the life that `coordinator` has now. By an event.
void StartMinimizer(World* world, SimulatedCoordinator* coordinator);

}  // namespace monsoon::simulation
