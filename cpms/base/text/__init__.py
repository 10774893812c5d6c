"""Text for people: escaping, terminal lines, tables in four kinds of markup, progress."""
