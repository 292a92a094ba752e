"""Training behind slow links: the links themselves, a cluster at their hub, and programs."""
