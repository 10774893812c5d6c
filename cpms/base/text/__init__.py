"""Output for people: escaping, terminal lines, tables in five kinds of markup, progress bars, suggestions."""
