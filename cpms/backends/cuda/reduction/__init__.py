"""Reduced problems: trimming, level-scheduled substitution, lumping."""
