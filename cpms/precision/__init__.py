"""Who decides how many bits are read: controllers, refinement policies, inner stopping, Anderson acceleration."""
