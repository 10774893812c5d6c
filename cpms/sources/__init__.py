"""Where graphs come from: readers, generators, data sets."""
