"""What the Python tests share: clusters of real processes, waiting, counting, small disks."""
